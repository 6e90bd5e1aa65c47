"""What a simulated answer rests on, in sentences: it is printed with every one."""

from collections.abc import Sequence

from shunter.ask.forking.changes import NOBODY_CALLS, callers_propose
from shunter.ask.forking.future import Future
from shunter.counting import counted
from shunter.events.facts.run import SchedulerStarted
from shunter.run.simulated_world import WorldParts

NOT_IN_LOG = {
    "factors": "factors of distance and neighbours",
    "simulated sensitivity": "how sensitive models really are",
}
"""Tables of a simulated world that a log names by their digests only."""


def assumptions_of(
    started: SchedulerStarted,
    parts: WorldParts,
    future: Future,
    *,
    drawn: int,
    is_rerun: bool,
    removes: bool,
) -> Sequence[str]:
    """Return what a fork takes for granted.

    Args:
        started: who decided in the log.
        parts: what the simulated world is made of.
        future: what came after the moment.
        drawn: of how many jobs the work was drawn.
        is_rerun: whether the run was made again from its beginning.
        removes: whether servers are taken away.
    """
    found = ["jobs are submitted and people give orders when they did, however long others wait"]
    found.append("servers are lost and come back when they did" + _beyond(started, parts))
    if started.simulated:
        found.append("run times are those of the trace")
    else:
        found.append(
            "a job that ended has as much work as it did, equally fast on all servers of a GPU "
            "type; starts, suspensions and changes of hands take what they took on average in this "
            "log"
        )
        found += parts.unmeasured
    if callers_propose(started):
        found.append(NOBODY_CALLS)
    if parts.staying:
        names = ", ".join(sorted(parts.staying))
        found.append(f"who went on to its end when told to leave does so again: {names}")
    if drawn:
        found.append(
            f"the run time of {counted(drawn, 'job')} that had not ended is drawn from those of "
            "jobs that had, by user and gang size"
        )
    if is_rerun:
        found.append("up to the moment the run was made again, and came to the state of the log")
    elif not (started.simulated and not _takes_time(parts)):
        found.append(
            "what is under way at the moment takes its whole cost, and turns begin a new quantum"
        )
    missing = [NOT_IN_LOG[name] for name, _ in started.digests if name in NOT_IN_LOG]
    found += [f"{what}: the log does not hold the table, so they do not count" for what in missing]
    if removes:
        found.append("a server that is taken away takes no new job; those on it run on")
    if future.left_out and not is_rerun:  # a run has all of its servers from the beginning
        words = ", ".join(f"{count} {kind}" for kind, count in sorted(future.left_out.items()))
        found.append(f"facts of the log that are not repeated: {words}")
    return found


def _beyond(started: SchedulerStarted, parts: WorldParts) -> str:
    """Return what is said of losses after the log, where a world has its own."""
    failures = parts.simulation.failures
    breaks = started.simulated and (failures.mtbf or failures.rack_mtbf)
    return ", and go on so after the log ends" if breaks else ""


def _takes_time(parts: WorldParts) -> bool:
    """Say whether anything that jobs are told to do takes time."""
    return not parts.simulation.costs.costs({}).are_none or parts.slicing is not None
