"""Explanations in words, made from their numbers: the only place that knows English."""

from collections.abc import Callable

from shunter.app.replaying.instants import clock, span
from shunter.app.replaying.why.explanation import Explanation
from shunter.app.replaying.why.stretches import Run, Segment
from shunter.app.replaying.wording import (
    allocation_in_words,
    because_in_words,
    gpus_in_words,
    share_in_words,
)
from shunter.core.state import JobPhase
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.execution import AttemptLost, LaunchFailed
from shunter.events.facts.jobs import (
    JobCancelled,
    JobCancelRequested,
    JobFailed,
    JobFinished,
    JobHeld,
    JobRejected,
)
from shunter.events.values.allocation import Allocation
from shunter.events.values.reasons import Reason, Wait

SERVERS_NAMED = 4


def headline(found: Explanation) -> str:
    """Return the answer in one sentence."""
    story, phase = found.story, found.phase
    now = found.waits_now
    if now is not None:
        waits_us = story.at_us - found.waits[-1].from_us
        return f"{story.job_id} has waited for {span(waits_us)}: {now.wait.reason}"
    run = found.last_run
    if found.outcome is not None:
        return f"{story.job_id} {_ended(found)}"
    if phase == JobPhase.granted:
        job = found.job
        where = "" if job is None else f" {_where(job.allocation)}"
        return f"{story.job_id} was granted{where}, and waits for others to leave it"
    if run is None:
        return f"{story.job_id} is {phase}"
    held_us = story.at_us - run.from_us
    where = _where(run.allocation)
    return f"{story.job_id} has been {phase} on {where} for {span(held_us)} (attempt {run.attempt})"


def details(found: Explanation) -> list[str]:
    """Return the evidence in sentences, the most important first."""
    now = found.waits_now
    if now is None:
        return _placed(found)
    lines = [_because(found, now)]
    if found.state is not None and found.state.targets_status:
        lines.append(f"shares are the last that could be computed: {found.state.targets_status}")
    if found.state is not None and found.state.policy_fault:
        lines.append(f"the policy failed, and nothing was decided: {found.state.policy_fault}")
    place = found.planned.place
    if place is not None:
        ahead = f", behind {', '.join(place.ahead)}" if place.ahead else ", nobody is ahead of it"
        more = " and others" if place.position - 1 > len(place.ahead) else ""
        lines.append(f"it ranks {place.position} of {place.waiting} that wait{ahead}{more}")
    return lines


def advice(found: Explanation) -> list[str]:
    """Return what would start a waiting job, as far as the evidence says."""
    now, evidence = found.waits_now, found.evidence
    if now is None or evidence is None:
        return []
    advise = _ADVICE.get(now.wait.reason)
    lines = [] if advise is None else advise(found, evidence)
    starves_us = found.planned.starves_us
    if starves_us is not None:
        lines.append(f"at {clock(starves_us)} it has starved, and goes to the head of the line")
    if found.state is not None and found.story.job_id in found.state.reservations:
        promised_us = found.state.reservations[found.story.job_id]
        lines.append(f"GPUs are promised to it from {clock(promised_us)} on")
    return lines


def how_ended(run: Run) -> str:
    """Return what ended an attempt; empty while it lasts."""
    event = None if run.ended_by is None else run.ended_by.event
    if event is None:
        return ""
    if isinstance(event, AllocationChanged):
        if event.allocation.shares:
            return f"moved to {_where(event.allocation)}"
        return f"preempted: {because_in_words(event.because)}"
    if isinstance(event, AttemptLost | LaunchFailed):
        return f"lost: {event.cause}"
    if isinstance(event, JobFinished):
        return "finished"
    if isinstance(event, JobFailed):
        code = "" if event.exit_code is None else f" {event.exit_code}"
        return f"failed: {event.cause}{code}"
    if isinstance(event, JobCancelled):
        return f"cancelled: {event.cause}" if event.cause else "cancelled"
    return "left its GPUs"


def _where(allocation: Allocation) -> str:
    """Return where an allocation is, with as many servers as a sentence can bear."""
    return allocation_in_words(allocation, SERVERS_NAMED)


def _ended(found: Explanation) -> str:
    end = found.story.end
    assert end is not None, "an outcome has an event"
    event = end.event
    at = clock(event.at_us)
    if isinstance(event, JobRejected):
        numbers = f": it needs {event.needed}, and there are {event.most}" if event.needed else ""
        detail = f" ({event.detail})" if event.detail else ""
        return f"was rejected at {at} as {event.reason}{numbers}{detail}"
    total_us = event.at_us - found.story.submitted.at_us
    split = (
        f"after {span(total_us)}: {span(found.waited_us)} waiting, {span(found.held_us)} on GPUs"
    )
    if isinstance(event, JobFinished):
        return f"finished at {at}, {split}"
    if isinstance(event, JobFailed):
        code = "" if event.exit_code is None else f" with code {event.exit_code}"
        what = "hit its time limit" if event.cause == "timeout" else f"failed{code}"
        return f"{what} at {at}, {split}"
    assert isinstance(event, JobCancelled), "there is no other end"
    cause = f" ({event.cause})" if event.cause and event.cause != "cancelled" else ""
    asked = [own.event for own in found.story.own if isinstance(own.event, JobCancelRequested)]
    by = f" by {asked[-1].by}" if asked and asked[-1].by else ""
    return f"was cancelled{by}{cause} at {at}, {split}"


def _placed(found: Explanation) -> list[str]:
    """Return why a job runs where it does, or last ran there."""
    run = found.last_run
    if run is None or run.decision is None or found.outcome is not None:
        return []
    event, planned = run.decision.event, run.decision.round
    assert isinstance(event, AllocationChanged), "a grant is an allocation"
    number = "" if planned is None else f" of round {planned.number}"
    lines = [
        (
            f"placed by e{run.decision.seq}{number} at {clock(event.at_us)}: "
            f"{because_in_words(event.because)}"
        )
    ]
    made_room = [own for own in found.story.victims if own.round == planned]
    if made_room:
        names = ", ".join(str(getattr(own.event, "job_id", "")) for own in made_room)
        lines.append(f"{names} had to leave for it")
    if len(found.runs) > 1:
        before = found.runs[-2]
        lines.append(
            f"attempt {before.attempt} on {_where(before.allocation)} was {how_ended(before)}"
        )
    return lines


def _because(found: Explanation, now: Segment) -> str:
    evidence = found.evidence
    assert evidence is not None, "a job that waits has a reason"
    after = found.waits[-1].after.event
    if isinstance(after, AllocationChanged) and now.told in (None, found.waits[-1].after.round):
        return f"it was preempted at {clock(after.at_us)}: {because_in_words(after.because)}"
    words = _WHY.get(now.wait.reason)
    return str(now.wait.reason) if words is None else words(found, evidence)


def _free_and_needed(evidence: Wait) -> str:
    return f"it needs {gpus_in_words(evidence.needed)}, and {evidence.free} are free for it"


def _fragmented(found: Explanation, evidence: Wait) -> str:
    return f"{_free_and_needed(evidence)}, but not where they fit together: {_pieces(found)}"


def _nearness(found: Explanation) -> str:
    """Return how near together the GPUs must be: as the job asks, or its placement."""
    level = found.story.spec.level_max
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
    return (
        f"queue {name} has {evidence.free} GPUs of its quota left, it needs {evidence.needed}{used}"
    )


def _dependency(found: Explanation, evidence: Wait) -> str:
    state, spec = found.state, found.story.spec
    if evidence.detail:
        return f"{spec.at_once} tasks of array {spec.array} may run at once, and others come first"
    pending = [each for each in evidence.blockers if state is not None and each in state.jobs]
    return f"it depends on {', '.join(pending) or 'other jobs'}, which must end first"


def _held(found: Explanation, evidence: Wait) -> str:
    by = [own for own in found.story.own if isinstance(own.event, JobHeld)]
    event = by[-1].event if by else None
    who = f" by {event.by}" if isinstance(event, JobHeld) and event.by else ""
    return f"it was put on hold{who} at {clock(event.at_us)}" if event else "it is on hold"


def _pinned(found: Explanation, evidence: Wait) -> str:
    guard = "minimum runtime" if evidence.reason is Reason.guard_min_runtime else "preemption limit"
    return f"{_free_and_needed(evidence)}; the {guard} keeps others where they are"


def _lost(found: Explanation, evidence: Wait) -> str:
    state = found.state
    down = [] if state is None else [s.name for s in state.cluster.servers.values() if not s.is_up]
    needed = evidence.needed or found.story.spec.gpus
    return f"too few GPUs are up for {needed}: {', '.join(down[:8])} are not"


def _shared(found: Explanation, evidence: Wait) -> str:
    """Return what a job got of its share, where the policy divides time."""
    before = "it is others' turn"
    parts = evidence.detail.split(":")
    if len(parts) == 4 and parts[0] == "share":
        before = share_in_words(parts[1], float(parts[2]), float(parts[3]))
    return f"{before}; {_free_and_needed(evidence)}"


_WHY: dict[Reason, Callable[[Explanation, Wait], str]] = {
    Reason.no_capacity: lambda _, evidence: _free_and_needed(evidence),
    Reason.outranked: lambda _, evidence: f"{_free_and_needed(evidence)}; others rank before it",
    Reason.fragmented: _fragmented,
    Reason.locality_not_met: lambda found, evidence: (
        f"{_free_and_needed(evidence)}, but not {_nearness(found)}: {_pieces(found)}"
    ),
    Reason.cpu_or_memory_short: lambda found, evidence: (
        f"{_free_and_needed(evidence)}, but no server has {found.story.spec.cpus_milli / 1000:g} "
        f"CPUs and {found.story.spec.memory_mb} MB left beside them"
    ),
    Reason.gpu_type_unavailable: lambda found, evidence: (
        "by the throughputs that are known, its model gets on with no GPU type that is up"
        if evidence.detail == "throughput"
        else f"no server with GPUs of type {' or '.join(found.story.spec.gpu_types)} is up"
    ),
    Reason.quota: _quota,
    Reason.guard_min_runtime: _pinned,
    Reason.guard_preemption_limit: _pinned,
    Reason.waiting_for_round: lambda _found, _: "no round has looked at it yet",
    Reason.dependency: _dependency,
    Reason.held: _held,
    Reason.backing_off: lambda _found, _: (
        "its last launch failed or was lost, and the next one waits a while"
    ),
    Reason.node_lost: _lost,
    Reason.share_met: _shared,
    Reason.time_sliced: _shared,
}


def _more_gpus(found: Explanation, evidence: Wait) -> list[str]:
    """Return which ends would free enough."""
    missing = evidence.needed - evidence.free
    if missing <= 0:
        return ["the jobs ahead of it have started"]
    lines = [f"{gpus_in_words(missing)} more become free"]
    jobs = {} if found.state is None else found.state.jobs
    enough = [
        job_id
        for job_id in evidence.blockers
        if job_id in jobs and jobs[job_id].allocation.gpus >= missing
    ]
    if enough:
        lines.append(f"{' or '.join(enough)} ends, which would free enough")
    return lines


def _together(found: Explanation, evidence: Wait) -> list[str]:
    spec = found.story.spec
    lines = ["GPUs become free beside those that are, so that it fits"]
    if spec.shapes:
        lines.append("it accepts another split over servers")
    if spec.level_max is None and evidence.reason is Reason.locality_not_met:
        lines.append("its model is found to be less skewed, or it says so itself (skew)")
    if spec.level_max is not None:
        lines.append(f"it accepts to spread further than one {spec.level_max}")
    return lines


def _next_round(found: Explanation, evidence: Wait) -> list[str]:
    rules, again = found.rules, found.planned
    if rules is None or rules.backend_rounds:
        return ["the next round finds room for it"]
    at = clock(rules.grid_at(found.story.at_us))
    if again.starts:
        return [f"nothing changes until the round at {at}: it would start there"]
    why = f"; as things are it would wait: {again.wait.reason}" if again.wait else ""
    return [f"the round at {at} finds room for it{why}"]


def _guard_ends(found: Explanation, evidence: Wait) -> list[str]:
    return [
        f"the guard of {job_id} ends at {clock(until_us)}, and it ranks lower"
        for job_id, until_us in found.planned.pinned[:1]
    ]


def _others_end(found: Explanation, evidence: Wait) -> list[str]:
    jobs = {} if found.state is None else found.state.jobs
    return [
        f"{each.job_id} ends {'well' if each.when == 'ok' else 'in whatever way'}"
        for each in found.story.spec.depends_on
        if each.job_id in jobs
    ]


_ADVICE: dict[Reason, Callable[[Explanation, Wait], list[str]]] = {
    Reason.no_capacity: _more_gpus,
    Reason.outranked: _more_gpus,
    Reason.fragmented: _together,
    Reason.locality_not_met: _together,
    Reason.cpu_or_memory_short: lambda _found, _: [
        "jobs on servers with free GPUs give back CPUs or memory"
    ],
    Reason.gpu_type_unavailable: lambda _found, evidence: [
        "a server with other GPUs joins, or its throughputs are measured anew"
        if evidence.detail == "throughput"
        else "such a server comes back"
    ],
    Reason.quota: lambda found, evidence: [
        (
            f"jobs of queue {found.story.spec.queue} give back "
            f"{gpus_in_words(max(1, evidence.needed - evidence.free))}, or its quota is raised"
        )
    ],
    Reason.guard_min_runtime: _guard_ends,
    Reason.guard_preemption_limit: _guard_ends,
    Reason.waiting_for_round: _next_round,
    Reason.dependency: _others_end,
    Reason.held: lambda _found, _: ["it is released"],
    Reason.backing_off: lambda _found, _: ["its wait between two launches is over"],
    Reason.share_met: lambda _found, _: ["its turn comes, as others get their shares"],
    Reason.time_sliced: lambda _found, _: ["its turn comes, as others get their shares"],
    Reason.node_lost: lambda _found, _: ["enough of the lost servers come back"],
}
