"""Each reason to wait in words, with the numbers of the instant that is asked for."""

from collections.abc import Callable, Sequence

from shunter.ask.replaying.formatting import (
    because_in_words,
    down_in_words,
    gpus_in_words,
    held_by_others,
    share_in_words,
    split_in_words,
)
from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.why.explanation import Explanation
from shunter.ask.replaying.why.present import NAMED
from shunter.ask.replaying.why.proposals import rejection_in_words
from shunter.ask.replaying.why.timeline import is_displacement
from shunter.ask.replaying.why.waiting.free_gpus import idle_elsewhere, use_of_free
from shunter.core.cluster import Cluster
from shunter.core.fold.attempts import awaited, home_of, out_of_reach
from shunter.counting import counted
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.execution import AttemptLost, JobSuspended, LaunchFailed
from shunter.events.facts.jobs import JobHeld, JobRetried
from shunter.events.values.causes import HEIGHT_MOST
from shunter.events.values.reasons import Reason, Wait

TASKS_NAMED = 8
_ATTEMPT_ENDS = (LaunchFailed, AttemptLost, JobRetried)


def reason_in_words(found: Explanation, evidence: Wait) -> str:
    """Return why a job waits."""
    words = _WHY.get(evidence.reason)
    return str(evidence.reason) if words is None else words(found, evidence)


def _room(found: Explanation, evidence: Wait, use: str = "") -> str:
    """Return what a job needs, finds free and for whom, and may preempt."""
    is_ = "is" if evidence.free == 1 else "are"
    words = f"it needs {gpus_in_words(evidence.needed)}, and {evidence.free} {is_} free"
    words += idle_elsewhere(found, evidence) + use
    behind = 0 if found.present is None else found.present.room(evidence.reason).behind
    more = "," if use else ""
    return f"{words}{more} and {behind} with jobs that it may preempt" if behind else words


def _short(found: Explanation, evidence: Wait) -> str:
    """Return the same, with for what free GPUs are that would be enough."""
    words = _room(found, evidence, use_of_free(found, evidence))
    starts_us = None if found.present is None else found.present.starts_us
    return words if starts_us is None else f"{words}; the plan at {clock(starts_us)} starts it"


def _short_since(found: Explanation, evidence: Wait, cause: str) -> str:
    """Return the same with its cause, unless the next plan starts the job."""
    starts = found.present is not None and found.present.starts_us is not None
    return _short(found, evidence) + ("" if starts else f"; {cause}")


def _no_capacity(found: Explanation, evidence: Wait) -> str:
    words = _short(found, evidence)
    if evidence.detail == HEIGHT_MOST:
        words += "; the servers on which it may take turns have as many jobs as height_most allows"
    return words


def _fragmented(found: Explanation, evidence: Wait) -> str:
    return f"{_room(found, evidence)}, but not where they fit together: {_pieces(found)}"


def _nearness(found: Explanation) -> str:
    """Return how near together the GPUs must be: as the job asks, or its placement."""
    demand = found.story.spec.demand() if found.job is None else found.job.demand
    level, splits = demand.max_level, " or ".join(map(split_in_words, demand.shapes))
    if level is None and splits:
        return f"as {splits}"
    return "on as few servers as could hold it" if level is None else f"within one {level}"


def _pieces(found: Explanation) -> str:
    """Return the servers with free GPUs."""
    if found.state is None:
        return ""
    pieces = [
        f"{server.name}:{server.offered.bit_count()}"
        for server in found.state.cluster.servers.values()
        if server.offered
    ]
    more = f" and {len(pieces) - 8} more servers" if len(pieces) > 8 else ""
    return " ".join(pieces[:8]) + more if pieces else "nothing is free now"


def _quota(found: Explanation, evidence: Wait) -> str:
    name = found.story.spec.queue
    queue = None if found.state is None else found.state.queues.get(name)
    used = "" if queue is None else f": {queue.gpus} of {queue.quota_gpus} are used"
    room = None if found.present is None else found.present.quota
    if room is not None and room.kept:
        used += f", {room.kept} are kept for {', '.join(room.kept_for[:NAMED])}, which may start"
    words = f"queue {name} has {gpus_in_words(evidence.free)} of its quota left, "
    return f"{words}it needs {evidence.needed}{used}{_quota_now(found, evidence)}"


def _quota_now(found: Explanation, evidence: Wait) -> str:
    """Return what the next plan finds where the quota, by now, is enough."""
    present = found.present
    if present is None or present.next_plan is None or evidence.free < evidence.needed:
        return ""
    at = f"; that is enough by now, and the plan at {clock(present.next_plan.at_us)}"
    if present.starts_us is not None:
        return f"{at} starts it"
    return f"{at} finds {present.wait.reason}" if present.wait else ""


def _dependency(found: Explanation, evidence: Wait) -> str:
    state = found.state
    pending = [each for each in evidence.blockers if state is not None and each in state.jobs]
    return f"it depends on {', '.join(pending) or 'other jobs'}, which must end first"


def _array(found: Explanation, evidence: Wait) -> str:
    """Return how many tasks of its array may run at once, and which have their turn."""
    spec, first = found.story.spec, ", ".join(evidence.blockers[:TASKS_NAMED])
    hidden = len(evidence.blockers) - TASKS_NAMED
    turns = first + (f" and {hidden} more" if hidden > 0 else "") or "others"
    come = "comes" if len(evidence.blockers) == 1 else "come"
    tasks = counted(spec.at_once or 1, "task")
    return f"{tasks} of array {spec.array} may run at once, and {turns} {come} first"


def _held(found: Explanation, evidence: Wait) -> str:
    by = [own for own in found.story.own if isinstance(own.event, JobHeld)]
    event = by[-1].event if by else None
    who = f" by {event.by}" if isinstance(event, JobHeld) and event.by else ""
    return f"it was put on hold{who} at {clock(event.at_us)}" if event else "it is on hold"


def _backing_off(found: Explanation, evidence: Wait) -> str:
    """Return what became of the last attempt, after which the next one waits."""
    events = [own.event for own in found.story.own]
    ends = [event for event in events if isinstance(event, (*_ATTEMPT_ENDS, JobSuspended))]
    last = ends[-1] if ends else None
    if last is None:
        return "its last launch failed or was lost, and the next one waits a while"
    at = clock(last.at_us)
    if isinstance(last, LaunchFailed | AttemptLost):
        what = "it was not launched" if isinstance(last, LaunchFailed) else "its attempt was lost"
        return f"{what} at {at} ({last.cause}), and the next try waits a while"
    if isinstance(last, JobRetried):
        return f"its last attempt failed at {at}, and the next one waits a while"
    if last.cause:
        return f"its last attempt was suspended at {at} ({last.cause}), and the next one waits"
    held = [event for event in events if isinstance(event, JobHeld)]
    again = "again and again, without progress, so the next one waits longer each time"
    return (
        f"its last attempt left by itself at {at}, with exit code 75: "
        f"{again if held and held[-1].until_us is not None else 'the next one waits a while'}"
    )


def _pinned(found: Explanation, evidence: Wait) -> str:
    if evidence.reason is Reason.guard_min_runtime:
        return _short_since(found, evidence, "others may not be preempted yet (min_runtime)")
    cause = "others may not be preempted: never, or not again so soon"
    return _short_since(found, evidence, f"{cause} (max_preemptions_per_job_hour)")


def _of_types(found: Explanation) -> str:
    types = found.story.spec.gpu_types
    return f" of type {' or '.join(types)}" if types else ""


def _lost(found: Explanation, evidence: Wait) -> str:
    """Return which servers are out of service, and how; or which attempt was lost."""
    if evidence.detail:
        return f"its last attempt was lost ({evidence.detail}), and no round has looked at it since"
    if found.state is None:
        return f"it needs {gpus_in_words(evidence.needed)}"
    cluster, types = found.state.cluster, found.story.spec.gpu_types
    down = down_in_words(cluster, types, found.unheld) or "every server is in service"
    one = " of one type" if len(cluster.pools) > 1 else ""
    up = _most_up(cluster, types)
    return f"it needs {gpus_in_words(evidence.needed)}, and {up}{one} are in service: {down}"


def _most_up(cluster: Cluster, types: Sequence[str]) -> int:
    """Return the most GPUs of one type that take jobs."""
    pools = cluster.pools.items()
    return max((pool.gpus_up for name, pool in pools if not types or name in types), default=0)


def _taken(found: Explanation, evidence: Wait) -> str:
    """Return how many GPUs are not in the hands of others, and what these hold."""
    if found.state is None:
        return f"it needs {gpus_in_words(evidence.needed)}, and others hold too many"
    cluster, types = found.state.cluster, found.story.spec.gpu_types
    one = " of one type" if len(cluster.pools) > 1 else ""
    held = held_by_others(cluster, types) or "others hold nothing now"
    return (
        f"it needs {gpus_in_words(evidence.needed)}, and beside what others hold there are "
        f"{_most_up(cluster, types)}{one}: {held}"
    )


def _beside(found: Explanation, evidence: Wait) -> str:
    """Return what a job needs beside its GPUs, and what servers have of it."""
    spec, held = found.story.spec, ""
    if found.state is not None and found.state.cluster.is_beside_taken:
        held = f"; {held_by_others(found.state.cluster, spec.gpu_types)}"
    beside = None if found.present is None else found.present.beside
    words = "not with enough CPUs and memory" if beside is None else f"not with {beside.words()}"
    if not spec.gpus:
        return f"no server has enough: it needs {words.removeprefix('not with ')}{held}"
    return f"{_room(found, evidence)}, but {words}{held}"


def _shared(found: Explanation, evidence: Wait) -> str:
    """Return what a job got of its share, where the policy divides time."""
    before = "it is others' turn"
    parts = evidence.detail.split(":")
    if len(parts) == 4 and parts[0] == "share":
        before = share_in_words(parts[1], float(parts[2]), float(parts[3]))
    return f"{before}; {_short(found, evidence)}"


def _checkpoint_unreachable(found: Explanation, evidence: Wait) -> str:
    """Return which servers a job waits for, and what it saved there."""
    job, state = found.job, found.state
    if job is None or state is None or not (nodes := awaited(job, state.cluster)):
        return "its newest checkpoint lies on a server that does not answer"
    place = (job.checkpoints or ())[out_of_reach(job, state.cluster)]
    step = "" if place.step is None else f", of step {place.step},"
    silent = "is not held" if set(nodes) <= set(found.unheld) else "does not answer"
    return (
        f"its newest checkpoint{step} was saved by attempt {place.attempt} on "
        f"{', '.join(place.nodes)}, and {', '.join(nodes)} {silent}"
    )


def _checkpoint_stays(found: Explanation, evidence: Wait) -> str:
    """Return where a job's checkpoint is, why it stays there, and what is free there."""
    failures = [own.event for own in found.story.own if isinstance(own.event, LaunchFailed)]
    cause = failures[-1].cause if failures else "it is too large to be copied"
    home = found.job and found.state and home_of(found.job, found.state.cluster)
    if not home:
        return cause
    free = home.offered.bit_count() if home.is_up else 0
    words = "is drained" if home.drained else f"has {gpus_in_words(free)} free"
    needed = gpus_in_words(found.story.spec.gpus)
    return f"{cause}; {home.name} {words}, and it needs {needed}"


def _displaced(found: Explanation, evidence: Wait) -> str:
    """Return who has the GPUs that a job was to start on."""
    events = [own.event for own in found.story.own if is_displacement(own.event)]
    last = events[-1] if events else None
    assert isinstance(last, AllocationChanged), "a job is displaced by one kind only"
    return f"{because_in_words(last.because)}, and no round has looked at it since"


def _split_kept(found: Explanation, evidence: Wait) -> str:
    """Return the split over servers that a job keeps."""
    split = "" if found.job is None else "+".join(map(str, found.job.split))
    return (
        f"it needs {gpus_in_words(evidence.needed)}, and {evidence.free} are free for it, but not "
        f"as {split} a server, the split over servers that its checkpoints are of"
    )


def _proposed(found: Explanation, evidence: Wait) -> str:
    """Return that the order lets a job start, and what became of its last proposal."""
    lets = "the order lets it start"
    state, job_id = found.state, found.story.job_id
    last = None if state is None else state.proposals.rejections.get(job_id)
    if last is None:
        return f"{lets}, and no place was proposed for it yet"
    return f"{lets}, and {rejection_in_words(last)}"


_WHY: dict[Reason, Callable[[Explanation, Wait], str]] = {
    Reason.no_capacity: _no_capacity,
    Reason.outranked: lambda found, evidence: _short_since(
        found, evidence, "others rank before it"
    ),
    Reason.fragmented: _fragmented,
    Reason.locality_not_met: lambda found, evidence: (
        f"{_room(found, evidence)}, but not {_nearness(found)}: {_pieces(found)}"
    ),
    Reason.cpu_or_memory_short: _beside,
    Reason.gpu_type_unavailable: lambda found, evidence: (
        "by the throughputs that are known, its model gets on with no GPU type that is up"
        if evidence.detail == "throughput"
        else f"no server with GPUs{_of_types(found)} is up"
    ),
    Reason.quota: _quota,
    Reason.guard_min_runtime: _pinned,
    Reason.guard_preemption_limit: _pinned,
    Reason.waiting_for_round: lambda _found, _: "no round has looked at it yet",
    Reason.waiting_for_release: lambda _found, evidence: (
        f"it was granted {gpus_in_words(evidence.needed)}, of which others have yet to leave "
        f"{evidence.needed - evidence.free}"
    ),
    Reason.dependency: _dependency,
    Reason.array_limit: _array,
    Reason.held: _held,
    Reason.backing_off: _backing_off,
    Reason.node_lost: _lost,
    Reason.node_drained: _lost,
    Reason.gpus_quarantined: _lost,
    Reason.gpus_taken: _taken,
    Reason.checkpoint_unreachable: _checkpoint_unreachable,
    Reason.checkpoint_stays: _checkpoint_stays,
    Reason.split_kept: _split_kept,
    Reason.displaced: _displaced,
    Reason.awaiting_proposal: _proposed,
    Reason.proposal_rejected: _proposed,
    Reason.share_met: _shared,
    Reason.time_sliced: _shared,
}
