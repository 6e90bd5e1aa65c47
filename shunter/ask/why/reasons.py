"""What must happen before a waiting job starts, and what is enough for it.

`needs` are necessary: none of them promises a start, because others may rank before the job, or
come first. `suffices` are the few things of which the planner itself says that the job starts.
"""

from collections.abc import Callable, Sequence

from shunter.ask.scores import decision_score, gpu_time_in_words, score_in_words
from shunter.ask.why.explanation import Explanation
from shunter.ask.why.job_events import Own, proposal_rejection_in_words
from shunter.ask.why.present import NAMED, Group, Present
from shunter.ask.why.timeline import ended_as, is_displacement
from shunter.ask.words import (
    because_in_words,
    clock,
    down_in_words,
    gpus_in_words,
    held_by_others,
    share_in_words,
    span,
    split_in_words,
)
from shunter.core.cluster import Cluster, Health, Server
from shunter.core.fold.checkpoints import awaited, home_of, out_of_reach
from shunter.core.state import JobPhase
from shunter.counting import counted
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.execution import AttemptLost, JobSuspended, LaunchFailed
from shunter.events.facts.jobs import JobHeld, JobResized, JobRetried
from shunter.events.values.causes import BY_POLICY, HEIGHT_MOST, HELD, RESIZED
from shunter.events.values.ids import JobId
from shunter.events.values.reasons import Reason, Wait

# For what GPUs are that are free and enough for a job that waits all the same.
#
# "It needs 1 GPU, and 1 is free" answers nothing: the next plan gives it to another job, it is
# kept for the first in the queue, promised, or came free since the last plan. Where too few GPUs
# are free, it is told where others are idle that would be enough, as on drained servers.


def use_of_free(found: Explanation, evidence: Wait) -> str:
    """Return for what free GPUs are, as a clause; empty: too few, or unknown."""
    present, free = found.present, evidence.free
    if present is None or present.starts_us is not None or not 0 < evidence.needed <= free:
        return ""
    at = "" if present.next_plan is None else clock(present.next_plan.at_us)
    said = ""
    grants, admitted = next_grants(found, evidence), _admitted_next(found)
    for gpus, text in (
        (present.gpus.kept, f"for {names_of(present.gpus.kept_for)}, to be placed before it"),
        (sum(grants.values()), f"given to {names_of([*grants])} by the plan at {at}"),
        (sum(admitted.values()), f"left to {names_of([*admitted])} by the plan at {at}"),
    ):
        taken = min(gpus, free)
        if taken:
            which = "which" if taken == evidence.free else f"{taken} of them"
            said += f", {which} {'is' if taken == 1 else 'are'} {text}"
            free -= taken
    if free >= evidence.needed:
        rest = _kept_back(found, present) or ("" if said else _since_then(found, evidence))
        said += f", {rest}" if rest else ""
    return said or _undecided(found)


def next_grants(found: Explanation, evidence: Wait) -> dict[JobId, int]:
    """Return whom the next plan gives how many of the free GPUs that are counted."""
    state, present = found.state, found.present
    if state is None or present is None or present.next_plan is None:
        return {}
    counted = _counted_type(found, state.cluster, evidence.free)
    return {
        grant.job_id: grant.gpus
        for grant in present.next_plan.grants
        if grant.gpu_type == counted and grant.job_id != found.story.job_id
    }


def promised_to(found: Explanation) -> JobId | None:
    """Return another job that the policy promised GPUs which this one would outlast."""
    state, present = found.state, found.present
    if state is None or present is None or not present.outlasts:
        return None
    return next((each for each in state.reservations if each != found.story.job_id), None)


def idle_elsewhere(found: Explanation, evidence: Wait) -> str:
    """Return where GPUs are idle that do not count and would be enough, as a clause."""
    state = found.state
    missing = evidence.needed - evidence.free
    if state is None or missing <= 0:
        return ""
    counted = _counted_type(found, state.cluster, evidence.free)
    types = found.story.spec.gpu_types
    idle: dict[str, int] = {}
    for server in state.cluster.servers.values():
        gpus, where = _not_counted(server, counted, types)
        if gpus:
            idle[where] = idle.get(where, 0) + gpus
    if sum(idle.values()) < missing:
        return ""
    return f" (and {', '.join(f'{gpus} {where}' for where, gpus in idle.items())})"


def names_of(jobs: Sequence[JobId]) -> str:
    """Return jobs by their names, as many as a line can bear."""
    more = len(jobs) - NAMED
    return ", ".join(jobs[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _admitted_next(found: Explanation) -> dict[JobId, int]:
    """Return the jobs that the next plan lets job schedulers place, with their GPUs."""
    state, plan = found.state, None if found.present is None else found.present.next_plan
    if state is None or plan is None:
        return {}
    types, mine = found.story.spec.gpu_types, found.story.job_id
    jobs = [state.jobs[job_id] for job_id in plan.admitted if job_id != mine]
    return {
        job.job_id: job.demand.gpus
        for job in jobs
        if not types or not job.demand.gpu_types or set(types) & set(job.demand.gpu_types)
    }


def _kept_back(found: Explanation, present: Present) -> str:
    """Return for whom what is left is kept: a promise, or the first in line."""
    promised = promised_to(found)
    if promised is not None:
        return f"kept for {promised}, to which GPUs are promised"
    state = found.state
    first = present.gpus.holders[0] if present.gpus.holders else None
    job = None if state is None or first is None else state.jobs.get(first)
    if job is None or job.phase is not JobPhase.waiting:
        return ""
    return f"kept for {first}, which is before it and needs {gpus_in_words(job.demand.gpus)}"


def _since_then(found: Explanation, evidence: Wait) -> str:
    """Return that fewer were free when its reason was recorded; empty: as many were."""
    now = found.waits_now
    if now is None or now.told is None or now.told.at_us >= found.story.at_us:
        return ""
    if not now.wait.needed or now.wait.free >= evidence.needed:
        return ""
    were = "was" if now.wait.free == 1 else "were"
    return f"but {now.wait.free} {were} at {clock(now.told.at_us)}, when that was found"


def _undecided(found: Explanation) -> str:
    """Return when it is decided who gets what is free, where no policy can be asked."""
    rules, present = found.rules, found.present
    if present is None or present.next_plan is not None:
        return ""
    if rules is None or rules.backend_rounds or not rules.round_us:
        return "; the next round decides who gets them"
    return f"; the round at {clock(rules.grid_at(found.story.at_us))} decides who gets them"


def _counted_type(found: Explanation, cluster: Cluster, free: int) -> str:
    """Return the GPU type of which so many are free, of those that a job accepts."""
    types: Sequence[str] = found.story.spec.gpu_types or list(cluster.pools)
    pools = cluster.pools.items()
    fits = {name for name, pool in pools if pool.gpus_free == free}
    return next((name for name in types if name in fits), "")


def _not_counted(server: Server, counted: str, types: Sequence[str]) -> tuple[int, str]:
    """Return how many idle GPUs of a server do not count for a job, and why."""
    gpu_type = server.configuration.gpu_type
    if server.is_up:
        if gpu_type == counted:
            set_aside = server.quarantined & ~server.decided
            return set_aside.bit_count(), f"set aside on {server.name}"
        if types and gpu_type not in types:
            return server.offered.bit_count(), f"of type {gpu_type}, which it does not accept"
        return server.offered.bit_count(), f"of type {gpu_type}: all have to be of one type"
    if server.health is not Health.up or (types and gpu_type not in types):
        return 0, ""
    idle = server.all_gpus & ~(server.decided | server.unavailable)
    return idle.bit_count(), f"on {server.name}, which is drained"


# Each reason to wait in words, with the numbers of the instant that is asked for.

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
    return f"{lets}, and {proposal_rejection_in_words(last)}"


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


# Which size the gang of a job has now, who wanted that and when, if it is not the first one.


def size_of(found: Explanation) -> dict[str, object] | None:
    """Return who gave the job its size; None: it has the one it was submitted with."""
    told = [own for own in found.story.own if isinstance(own.event, JobResized)]
    if not told:
        return None
    last, event = told[-1], told[-1].event
    assert isinstance(event, JobResized), "only such were taken"
    spec = found.story.submitted.spec
    fewest, most = spec.sizes
    when = f"{clock(event.at_us)} (e{last.seq}) by {resized_by(event)}"
    size = f"its gang was given {counted(event.gpus, 'GPU')} at {when}"
    return {
        "seq": last.seq,
        "at_us": event.at_us,
        "time": clock(event.at_us),
        "gpus": event.gpus,
        "by": resized_by(event),
        "submitted_with": spec.gpus,
        "words": f"{size}; submitted with {spec.gpus}, and may have {fewest} to {most}",
    }


def resized_by(event: JobResized) -> str:
    """Return who wanted another size, in words."""
    return "the policy" if event.by == BY_POLICY else event.by or "somebody"


# Where a job stands in the queue and what it was decided by, in words; and what became of it.


def decision_in_words(found: Explanation, own: Own) -> str:
    """Return why something was decided about the job: rule, scores, gainers."""
    event = own.event
    assert isinstance(event, AllocationChanged), "an allocation is decided by one kind only"
    because = event.because
    if because == HELD:
        return f"held{by_in_words(found, own)}"
    if because == RESIZED:
        sizes = [each.event for each in found.story.own if each.seq < own.seq]
        wish = next(event for event in reversed(sizes) if isinstance(event, JobResized))
        return f"{resized_by(wish)} wants it to have {gpus_in_words(wish.gpus)}"
    return because_in_words(because, scores_in_words(found, own))


def by_in_words(found: Explanation, own: Own) -> str:
    """Return by whom a job was put on hold that left its GPUs for that."""
    holds = [each.event for each in found.story.own if each.seq < own.seq]
    by = next((event.by for event in reversed(holds) if isinstance(event, JobHeld)), "")
    return f" by {by}" if by else ""


def scores_in_words(found: Explanation, own: Own) -> str:
    """Return what the scores of a decision say; empty where nobody can tell."""
    event = own.event
    if not isinstance(event, AllocationChanged):
        return ""
    measures = found.measures_at(own.seq)
    return decision_score(event.because, measures, found.used_gpu_us(event.at_us))


def rank_in_words(found: Explanation) -> str:
    """Return what the score says that the job has at the instant asked for."""
    place = None if found.present is None else found.present.place
    if place is None:
        return ""
    used_gpu_us = found.used_gpu_us(found.story.at_us)
    return score_in_words(found.measures_at(found.story.seq), place.score, used_gpu_us)


def became(found: Explanation) -> list[str]:
    """Return what became of a waiting job, if the log goes on."""
    later, story = found.later, found.story
    if later is None:
        return []
    if isinstance(later.event, AllocationChanged):
        gpus = gpus_in_words(later.event.allocation.gpus)
        what = "its place" if not later.event.allocation.gpus else gpus
        after = span(later.event.at_us - story.at_us)
        lines = [f"it got {what} at {clock(later.event.at_us)} (e{later.seq}), {after} later"]
    elif later.event is not None:
        outcome = ended_as(Own(later.seq, later.event, None))
        lines = [f"it ended as {outcome} at {clock(later.event.at_us)} (e{later.seq}), waiting"]
    else:
        lines = [f"it still waited at the end of the log, at {clock(later.upto_us)}"]
    ended = [
        f"{job_id} at {clock(event.at_us)}" for job_id, (_, event) in sorted(later.ends.items())
    ]
    if ended:
        lines.append(f"until then these ended: {', '.join(ended)}")
    return lines


def rank_lines(found: Explanation) -> list[str]:
    """Return where a job ranks, and what those before it have left to do."""
    place = None if found.present is None else found.present.place
    if place is None:
        return []
    ahead = (
        f", behind {', '.join(place.ahead)}" if place.ahead else ", no waiting job is ahead of it"
    )
    more = " and others" if place.position - 1 > len(place.ahead) else ""
    score = rank_in_words(found)
    why = f"; it {score}" if score else ""
    lines = [f"it ranks {place.position} of {place.waiting} that wait{ahead}{more}{why}"]
    waiting, running = place.waiting_ahead, place.running_ahead
    if waiting.jobs:
        lines.append(f"ahead in the queue: {_jobs(waiting)} for {_work(waiting)}")
    if running.jobs:
        lines.append(f"ahead on GPUs: {_jobs(running)} on {_work(running)}")
    return lines


def _jobs(group: Group) -> str:
    return "1 job" if group.jobs == 1 else f"{group.jobs:,} jobs"


def _work(group: Group) -> str:
    """Return the GPUs of some jobs, and what work they have left, as far as is known."""
    if group.unknown == group.jobs:
        return f"{gpus_in_words(group.gpus)}; nobody knows how long they run"
    unknown = f"; of {group.unknown:,} of them nobody knows it" if group.unknown else ""
    left = gpu_time_in_words(group.left_gpu_us)
    if not group.limited:
        return f"{gpus_in_words(group.gpus)}, with {left} left at base speed{unknown}"
    known = group.jobs - group.unknown
    whose = f" of {group.limited:,} of them" if group.limited < known else ""
    limits = f"by the time limit{'s' if group.limited > 1 else ''}{whose}"
    return f"{gpus_in_words(group.gpus)}, with {left} left at most, {limits}{unknown}"


_LOST = Reason.node_lost


def needs(found: Explanation) -> list[str]:
    """Return what has to happen at least before a job starts, each of it."""
    now, evidence = found.waits_now, found.evidence
    if now is None or evidence is None:
        return []
    present = found.present
    if present is not None and present.starts_us is not None:
        return []
    reason = Reason.waiting_for_round if evidence.reason is _LOST and evidence.detail else None
    reason = reason or now.wait.reason
    if now.told is not None and present is not None and present.wait is not None:
        reason = present.wait.reason  # what the next plan will find counts, not what the last did
    advise = _NEEDS.get(reason)
    return [] if advise is None else advise(found, evidence)


def suffices(found: Explanation) -> list[str]:
    """Return what is enough for a job to start, as the planner itself says."""
    present = found.present
    if found.waits_now is None or present is None or present.starts_us is None:
        return []
    return [f"nothing changes until the plan at {clock(present.starts_us)}, which starts it"]


def _more_gpus(found: Explanation, evidence: Wait) -> list[str]:
    """Return how many GPUs more must come free."""
    present = found.present
    if evidence.detail == HEIGHT_MOST:
        return ["a job ends or leaves a server on which it may take turns, or GPUs come free to it"]
    missing = 0 if present is None else present.missing(Reason.no_capacity)
    if missing <= 0:
        return ["a job that ranks before it starts, ends or comes to rank behind it"]
    gpus = "1 more GPU comes" if missing == 1 else f"{missing} more GPUs come"
    return [f"{gpus} free to it: others before it end, leave or fall behind it, or servers join"]


def _together(found: Explanation, evidence: Wait) -> list[str]:
    spec = found.story.spec
    ways = ["GPUs come free beside those that are, so that it fits"]
    if spec.shapes_accepted:
        ways.append("it accepts another split over servers")
    level = spec.level_max if found.job is None else found.job.demand.max_level
    if level is None and evidence.reason is Reason.locality_not_met:
        ways.append("its model is found to be less skewed, or it says so itself (skew)")
    if level is not None:
        ways.append(f"it accepts to spread further than one {level}")
    return [", or ".join(ways)]


def _next_round(found: Explanation, evidence: Wait) -> list[str]:
    rules, present = found.rules, found.present
    if rules is None or rules.backend_rounds or not rules.round_us:
        return ["the next round finds room for it"]
    at = clock(rules.grid_at(found.story.at_us))
    wait = None if present is None else present.wait
    why = f"; as things are it would wait there: {wait.reason}" if wait else ""
    return [f"the round at {at}, or a later one, finds room for it{why}"]


def _wait_ends(found: Explanation, evidence: Wait) -> list[str]:
    """Return until when it waits for its next launch."""
    until_us = None if found.job is None else found.job.back_at_us
    at = "" if until_us is None else f" at {clock(until_us)}"
    return [f"its wait between two launches is over{at}, or it is resumed before"]


def _guard_ends(found: Explanation, evidence: Wait) -> list[str]:
    pinned = () if found.present is None else found.present.pinned[:1]
    first = [f"a guard ends, the first at {clock(until_us)}: {job}" for job, until_us in pinned]
    return [
        f"{(first or ['a job that may not be preempted ends'])[0]}, or GPUs come free otherwise"
    ]


def _others_end(found: Explanation, evidence: Wait) -> list[str]:
    jobs = {} if found.state is None else found.state.jobs
    return [
        f"{each.job_id} ends {'well' if each.when == 'ok' else 'in whatever way'}"
        for each in found.story.spec.depends_on
        if each.job_id in jobs
    ]


def _needs_quota(found: Explanation, evidence: Wait) -> list[str]:
    missing = 1 if found.present is None else max(1, found.present.missing(Reason.quota))
    queue = found.story.spec.queue
    return [f"jobs of queue {queue} give back {gpus_in_words(missing)}, or its quota is raised"]


def _servers_back(found: Explanation, evidence: Wait) -> list[str]:
    return ["servers come back into service or join, until enough GPUs are up"]


def _others_leave(found: Explanation, evidence: Wait) -> list[str]:
    """Return how many GPUs others must leave that hold too many of them."""
    pools = {} if found.state is None else found.state.cluster.pools
    types = found.story.spec.gpu_types
    up = [pool.gpus_up for name, pool in pools.items() if not types or name in types]
    missing = max(1, evidence.needed - max(up, default=0))
    return [f"others leave {gpus_in_words(missing)} or more of one type, or servers join"]


def _go_on_without(found: Explanation, evidence: Wait) -> list[str]:
    """Return what lets a job go on whose checkpoint is out of reach."""
    given_up = (
        f"its owner gives the checkpoint up: `shunter discard-checkpoint {found.story.job_id}`"
    )
    return [f"the server answers again or is lost for good, or {given_up}"]


def _room_at_home(found: Explanation, evidence: Wait) -> list[str]:
    """Return what lets a job go on whose checkpoint is too large to be copied."""
    job_id = found.story.job_id
    home = (found.job and found.job.stays_on) or "the server that has it"
    return [
        (
            f"GPUs for it come free on {home}, or what it saved there is made smaller and then "
            f"`shunter resume {job_id}` lets it be copied, or its owner gives the checkpoint up: "
            f"`shunter discard-checkpoint {job_id}`"
        )
    ]


def _split_fits(found: Explanation, evidence: Wait) -> list[str]:
    """Return what a job waits for that keeps its split over servers."""
    return [
        (
            "GPUs come free on servers so that its split fits, or it is submitted anew with "
            "--split-may-change, if another number of processes can load its checkpoints"
        )
    ]


_NEEDS: dict[Reason, Callable[[Explanation, Wait], list[str]]] = {
    Reason.no_capacity: _more_gpus,
    Reason.outranked: _more_gpus,
    Reason.fragmented: _together,
    Reason.locality_not_met: _together,
    Reason.cpu_or_memory_short: lambda _found, _: [
        "jobs on servers with free GPUs give back CPUs or memory, or other GPUs come free"
    ],
    Reason.gpu_type_unavailable: lambda _found, evidence: [
        "a server with other GPUs joins, or its throughputs are measured anew"
        if evidence.detail == "throughput"
        else "a server with such GPUs joins or comes back"
    ],
    Reason.quota: _needs_quota,
    Reason.guard_min_runtime: _guard_ends,
    Reason.guard_preemption_limit: _guard_ends,
    Reason.waiting_for_round: _next_round,
    Reason.waiting_for_release: lambda _found, evidence: [
        f"the GPUs that it was granted are left by {', '.join(evidence.blockers) or 'others'}"
    ],
    Reason.dependency: _others_end,
    Reason.array_limit: lambda found, _: [
        f"a task of array {found.story.spec.array} that has its turn ends, or gives it up"
    ],
    Reason.held: lambda _found, _: ["it is released"],
    Reason.backing_off: _wait_ends,
    Reason.share_met: lambda _found, _: ["its turn comes, as others get their shares"],
    Reason.time_sliced: lambda _found, _: ["its turn comes, as others get their shares"],
    Reason.node_lost: _servers_back,
    Reason.node_drained: _servers_back,
    Reason.gpus_quarantined: _servers_back,
    Reason.gpus_taken: _others_leave,
    Reason.checkpoint_unreachable: _go_on_without,
    Reason.checkpoint_stays: _room_at_home,
    Reason.split_kept: _split_fits,
    Reason.displaced: _next_round,
}
