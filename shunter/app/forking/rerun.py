"""A simulated run, run once more up to a moment: the world is then exactly what it was.

A world knows more than the state tells: where turns and leases stand, what a checkpoint held, what
comes of orders under way. Where that matters, and the log has all that the world was made of, the
run is made again from its beginning, and held to the log at the moment where it stops.
"""

from collections.abc import Iterable
from dataclasses import replace

from shunter.app.forking.assumptions import NOT_IN_LOG
from shunter.app.forking.fork import (
    Change,
    Discarding,
    ForkedWorld,
    MakeWorld,
    Standing,
    WorkOf,
    coming_job,
)
from shunter.app.forking.future import Future
from shunter.app.gc_control import collector_off
from shunter.app.replaying.folding import state_at
from shunter.app.replaying.recorded_terms import Rebuild, refuse_other_version
from shunter.core.digest import state_digest
from shunter.core.interfaces import Backend, Observers
from shunter.core.round_loop import run_rounds
from shunter.core.scheduler import Scheduler
from shunter.errors import UsageError
from shunter.events.facts.cluster import NodeAdded, QuotaChanged
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.log import LogReader
from shunter.events.past_jobs import MemoryPastJobs

NOT_THE_SAME = "the run could not be made again as it was"

_OPENING = (SchedulerStarted, QuotaChanged, NodeAdded)


async def rerun_to(
    reader: LogReader,
    seq: int,
    rebuild: Rebuild,
    make_world: MakeWorld,
    whole: Future,
    work_of: WorkOf,
    change: Change,
    listeners: Iterable[Observers] = (),
) -> Standing:
    """Return a run as it was after an event and what else happened at its instant.

    Args:
        reader: the log of a simulation.
        seq: the number of the event.
        rebuild: makes the policy that decided.
        make_world: makes the world, with the jobs of the whole log.
        whole: what came in it, from its beginning.
        work_of: tells the work of jobs that have not ended.
        change: whose jobs do not come after that event.
        listeners: told of each fact from the beginning on.
    Raises:
        UsageError: it comes out otherwise than it was, or has more than one term.
    """
    opening = await _opening(reader)
    started = opening[0]
    if not isinstance(started, SchedulerStarted) or not started.simulated:
        raise UsageError(f"{NOT_THE_SAME}: its log does not begin with a simulation")
    policy, rules = rebuild(started)
    refuse_other_version(started, policy)
    at_us = await _instant_of(reader, seq)
    coming = [
        coming_job(
            each, whole.work.get(each.job_id) or work_of(each.job_id, each.spec, None, each.at_us)
        )
        for each in whole.submissions
        if each.at_us <= at_us or not change.is_without(each.spec)
    ]
    told = {each.job_id: each for each in whole.submissions}
    world = ForkedWorld(make_world(coming, None), whole.inputs, told)
    core = Scheduler(policy, rules, listeners=listeners)
    core.view.open()
    for fact in opening:
        core.emit(fact)
    core.view.close()
    core.hand_on()
    with collector_off():
        await _run_to(core, world, seq, at_us)
    await _hold_to_log(reader, core, started)
    assert isinstance(core.past, MemoryPastJobs), "a run of its own has all its past"
    run, now_us = (policy, rules), core.state.now_us
    return Standing(
        core.state, core.past, world, run, core.memory, core.replan_needed, now_us, core
    )


async def gone_on(standing: Standing, now_us: int) -> Standing:
    """Return a run that has gone on up to an instant, with nothing recorded."""
    core = standing.core
    if core is None or now_us <= standing.now_us:
        return standing
    await run_rounds(core, standing.world, Discarding(), standing.now_us, now_us)
    return replace(standing, now_us=now_us)


async def _run_to(core: Scheduler, world: Backend, seq: int, at_us: int) -> None:
    """Run from the beginning up to an event at an instant, and to no later instant.

    A step ends at that instant, which may else last up to the end of a round.
    """
    log, now_us, before = Discarding(), 0, -1
    while before < core.state.seq < seq:  # there may be more than one step at an instant
        before = core.state.seq
        now_us = await run_rounds(
            core, world, log, now_us, at_us, is_enough=lambda: core.state.seq >= seq
        )


async def _opening(reader: LogReader) -> list[Event]:
    """Return the facts with which a log begins, before anything happens."""
    found: list[Event] = []
    async for event in reader.events():
        if not isinstance(event, _OPENING):
            break
        found.append(event)
    return found


async def _instant_of(reader: LogReader, seq: int) -> int:
    async for event in reader.events(seq - 1, seq):
        return event.at_us
    return 0


async def _hold_to_log(reader: LogReader, core: Scheduler, started: SchedulerStarted) -> None:
    """Raise UsageError unless a run has led to the state that its log tells."""
    state = core.state
    head = await reader.head()
    recorded = await state_at(reader, min(state.seq, head.seq))
    if recorded.seq != state.seq or state_digest(recorded) != state_digest(state):
        missing = [NOT_IN_LOG[name] for name, _ in started.digests if name in NOT_IN_LOG]
        why = "`shunter replay LOG --verify` says where the code decides otherwise"
        if missing:
            why = f"the log does not hold the table of {' and of '.join(missing)}, only its digest"
        raise UsageError(
            f"{NOT_THE_SAME}: after e{state.seq} it is not in the state that the log tells; {why}"
        )
