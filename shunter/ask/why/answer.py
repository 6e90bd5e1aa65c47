"""An explanation as one JSON-able document: every number by its name, with sentences."""

from typing import Any

from shunter.ask.reason_words import TRY
from shunter.ask.waits import STOPPED, holders, stands_still
from shunter.ask.why.explanation import Explanation
from shunter.ask.why.job_events import Own, Round
from shunter.ask.why.present import NAMED, Group
from shunter.ask.why.reasons import (
    advice_on,
    awaited_in_words,
    needs,
    next_grants,
    promised_to,
    reason_in_words,
    suffices,
)
from shunter.ask.why.running import contract_of, corrections_of, shares_of, trials_of, turns_of
from shunter.ask.why.sentences import (
    became,
    decision_in_words,
    details,
    headline,
    how_ended,
    is_preempted,
    leaves_by,
    rank_in_words,
    room_in_words,
    scores_in_words,
    size_of,
)
from shunter.ask.why.timeline import RunSpan, Waiting
from shunter.ask.words import (
    allocation_in_words,
    clock,
    first_of,
    gpus_in_words,
    stamp,
    warning_in_words,
)
from shunter.core import Job, JobPhase
from shunter.counting import counted
from shunter.events import (
    AllocationChanged,
    JobId,
    JobPriorityChanged,
    JobWarned,
    Reason,
    Sharing,
    Wait,
)

_SERVERS_NAMED = 2
BLOCKERS_NAMED = 2


def short_of(found: Explanation) -> dict[str, str] | None:
    """Return why a job waits, for what, and what to do; None: it does not wait."""
    evidence = found.evidence
    if found.waits_now is None or evidence is None:
        return None
    said = headline(found)
    if found.phase != JobPhase.granted:
        said += f": {reason_in_words(found, evidence)}"
    return {
        "answer": said,
        "waits_for": "; ".join([_waits_for(found, evidence), *found.losses]),
        "to_do": _to_do(found, evidence),
    }


def _waits_for(found: Explanation, evidence: Wait) -> str:
    """Return who or what a job waits for."""
    state, present = found.state, found.present
    fault = "" if state is None else state.policy_fault
    if fault:
        return f"a policy that works: this one failed, and nothing was decided: {fault}"
    if present.starts_us is not None:
        return f"the plan at {clock(present.starts_us)}, which starts it"
    if words := awaited_in_words(found, evidence):
        return words
    promised = promised_to(found)
    if promised is not None:
        return present.outlasts.removeprefix("it is not started before ")
    grants = next_grants(found, evidence)
    if grants and evidence.free >= evidence.needed:
        return f"{first_of([*grants], NAMED)}, which the next plan starts before it"
    return _blockers(found, evidence) or _holders(found, evidence)


def _blockers(found: Explanation, evidence: Wait) -> str:
    jobs = {} if found.state is None else found.state.jobs
    there = [jobs[each] for each in evidence.blockers if each in jobs]
    return _jobs(there)


def _holders(found: Explanation, evidence: Wait) -> str:
    """Return the jobs on GPUs that a job accepts, or those of its queue."""
    state, spec = found.state, found.story.spec
    if state is None:
        return "others"
    default = f"the quota of queue {spec.queue}" if evidence.reason is Reason.quota else "GPUs"
    return _jobs(holders(evidence.reason, spec, state)) or default


def _jobs(jobs: list[Job]) -> str:
    """Return jobs with what they hold, the first few of them."""
    return first_of([f"{job.job_id} ({_phase(job)})" for job in jobs], BLOCKERS_NAMED)


def _phase(job: Job) -> str:
    has = job.held if job.held.shares else job.allocation
    if not has.shares:
        return f"{job.phase}, needs {gpus_in_words(job.demand.gpus)}"
    phase = STOPPED if stands_still(job) else job.phase
    return f"{phase} on {allocation_in_words(has, _SERVERS_NAMED)}"


def _to_do(found: Explanation, evidence: Wait) -> str:
    """Return what somebody can do about a wait."""
    if found.later is not None and found.later.event is not None:  # it is of the past
        return f"nothing: {became(found)[0]}"
    if suffices(found):
        return "nothing: it starts by itself"
    if found.phase == JobPhase.granted:
        return "nothing: it starts as soon as they have left"
    if promised_to(found) is not None:
        return "wait, or submit it with a --time that ends before that"
    advice, hint = advice_on(found, evidence)
    if advice:
        return advice
    until, stopped = needs(found), _stopped(found, evidence)
    if not until:
        return f"wait; {stopped}{TRY}"
    return f"wait until {', and '.join(until)}; {stopped}{hint}"


def _stopped(found: Explanation, evidence: Wait) -> str:
    """Return what lets go of the GPUs of a job that was stopped on them; or nothing."""
    if found.state is None:
        return ""
    has = [found.state.jobs[each] for each in evidence.blockers if each in found.state.jobs]
    has = has or holders(evidence.reason, found.story.spec, found.state)
    job_id = next((job.job_id for job in has if stands_still(job)), None)
    if job_id is None:
        return ""
    return (
        f"{job_id} keeps its GPUs while it is stopped: `shunter resume {job_id}` lets it go on, "
        f"`shunter cancel {job_id}` ends it; "
    )


_SCHEMA = 2
MANUAL = "docs/reference/reasons.md"


def document(found: Explanation) -> dict[str, Any]:
    """Return everything an explanation says as data."""
    spec, story = found.story.spec, found.story
    return {
        "schema": _SCHEMA,
        "log": found.url,
        "job": {
            "id": story.job_id,
            "name": spec.name,
            "user": spec.user,
            "queue": spec.queue,
            "gpus": spec.gpus,
            "submitted_us": story.submitted.at_us,
        },
        "at": {
            "seq": story.seq,
            "us": story.at_us,
            "time": clock(story.at_us),
            "asked_seq": found.asked_seq,
        },
        "policy": found.policy,
        "phase": found.phase,
        "headline": headline(found),
        "short": short_of(found),
        "details": details(found),
        "reason": _reason(found),
        "evidence": _evidence(found),
        "rank": _rank(found),
        "decision": _decision(found),
        "planned_again": _agreement(found),
        "needs_at_least": needs(found),
        "would_start_if": suffices(found),
        "became": _became(found),
        "reasons_over_time": _shares(found),
        "timeline": _timeline(found),
        "totals": _totals(found),
        **_shares_now(found),
    }


def _shares_now(found: Explanation) -> dict[str, object]:
    """Return what changed of a job, its turns, and its contract."""
    told = {
        "priority": _priority(found),
        "size": size_of(found),
        "shares": shares_of(found),
        "corrections": corrections_of(found),
        "turns": turns_of(found),
        "trials": trials_of(found),
        "contract": contract_of(found),
        "leaves": _leaves(found),
        "warned": _warned(found),
    }
    return {name: what for name, what in told.items() if what}


def _warned(found: Explanation) -> dict[str, object] | None:
    """Return the last warning to the owner, and how many others there are."""
    told = [own for own in found.story.own if isinstance(own.event, JobWarned)]
    if not told:
        return None
    last, event = told[-1], told[-1].event
    assert isinstance(event, JobWarned), "only such were taken"
    texts = {own.event.text for own in told if isinstance(own.event, JobWarned)}
    others = len(texts) - 1
    more = f"; {counted(others, 'other warning')}: `shunter show {event.job_id}`" if others else ""
    return {
        **stamp(last.seq, event.at_us),
        "attempt": event.attempt,
        "text": event.text,
        "others": others,
        "words": warning_in_words(event) + more,
    }


def _priority(found: Explanation) -> dict[str, object] | None:
    """Return who gave the job its priority; None: it is that of its submission."""
    told = [own for own in found.story.own if isinstance(own.event, JobPriorityChanged)]
    if not told:
        return None
    last, event = told[-1], told[-1].event
    assert isinstance(event, JobPriorityChanged), "only such were taken"
    what = f"its group {event.group!r}" if event.group else "it"
    by = f" by {event.by}" if event.by else ""
    when = f"{clock(event.at_us)} (e{last.seq}){by}"
    before = found.story.submitted.spec.priority
    return {
        **stamp(last.seq, event.at_us),
        "priority": event.priority,
        "by": event.by,
        "group": event.group,
        "submitted_with": before,
        "words": f"{what} was given priority {event.priority} at {when}; submitted with {before}",
    }


def blockers_of(found: Explanation) -> list[dict[str, object]]:
    """Return what the blocking jobs hold at this point."""
    evidence = found.evidence
    if evidence is None or found.state is None:
        return []
    return [_blocker(job_id, found) for job_id in evidence.blockers]


def _blocker(job_id: JobId, found: Explanation) -> dict[str, object]:
    state = found.state
    assert state is not None, "who blocks is told of a state"
    job: Job | None = state.jobs.get(job_id)
    if job is None:
        return {"id": job_id, "phase": str(found.ended.get(job_id, "unknown")), "gpus": 0}
    has = job.held if job.held.shares else job.allocation  # while it leaves it is where it was
    return {
        "id": job_id,
        "phase": STOPPED if stands_still(job) else str(job.phase),
        "user": job.spec.user,
        "gpus": has.gpus,
        "wants_gpus": job.spec.gpus if job.phase is JobPhase.waiting else 0,
        "where": allocation_in_words(has),
        "since_us": found.came_us.get(job_id),
        "attained_gpu_s": job.service_us(found.story.at_us) / 1e6,
    }


def _reason(found: Explanation) -> dict[str, object] | None:
    now = found.waits_now
    if now is None:
        return None
    return {
        "name": str(now.wait.reason),
        "detail": now.wait.detail,
        "since_us": now.from_us,
        "since": clock(now.from_us),
        "for_s": (found.story.at_us - now.from_us) / 1e6,
        "manual": f"{MANUAL}#{now.wait.reason}",
        "as_of": _instant(found.reason_us),
    }


def _evidence(found: Explanation) -> dict[str, object] | None:
    evidence, now = found.evidence, found.waits_now
    if evidence is None or now is None:
        return None
    present = found.present
    behind = present.room(evidence.reason).behind if evidence.needed else 0
    short = present.beside if evidence.reason is Reason.cpu_or_memory_short else None
    return {
        **({} if short is None else {"beside": short.document()}),
        "needed": evidence.needed,
        "free": evidence.free,
        "behind": behind,
        "missing": max(0, evidence.needed - evidence.free - behind),
        "blockers": blockers_of(found),
        "seq": found.story.seq,
        "as_of": _instant(found.story.at_us),
    }


def _instant(at_us: int) -> dict[str, object]:
    return {"us": at_us, "time": clock(at_us)}


def _rank(found: Explanation) -> dict[str, object] | None:
    place = found.present.place
    if place is None:
        return None
    return {
        "position": place.position,
        "waiting": place.waiting,
        "score": place.score[0] if len(place.score) == 1 else list(place.score),
        "score_in_words": rank_in_words(found),
        "ahead": list(place.ahead),
        "waiting_ahead": _group(place.waiting_ahead),
        "running_ahead": _group(place.running_ahead),
    }


def _group(group: Group) -> dict[str, object]:
    """Return jobs that rank before this one: their GPUs, and the work left."""
    return {
        "jobs": group.jobs,
        "gpus": group.gpus,
        "left_gpu_s": group.left_gpu_us / 1e6,
        "unknown": group.unknown,
        "limited": group.limited,
    }


def _became(found: Explanation) -> dict[str, object] | None:
    """Return what became of a waiting job; None: the log ends there."""
    later = found.later
    if later is None:
        return None
    event = later.event
    at_us = later.upto_us if event is None else event.at_us
    got = isinstance(event, AllocationChanged)
    return {
        "what": "waits" if event is None else "started" if got else "ended",
        "seq": None if event is None else later.seq,
        "at_us": at_us,
        "time": clock(at_us),
        "after_s": (at_us - found.story.at_us) / 1e6,
        "ended": [
            {"id": job_id, "seq": seq, "at_us": end.at_us, "time": clock(end.at_us)}
            for job_id, (seq, end) in sorted(later.ends.items())
        ],
        "words": became(found),
    }


def _decision(found: Explanation) -> dict[str, object] | None:
    """Return the decision that set the reason, or gave the GPUs."""
    if found.waits_now is not None and found.phase != JobPhase.granted:
        after = found.waits[-1].after
        if isinstance(after.event, AllocationChanged) and found.told in (None, after.round):
            return _allocation(found, after)
        return _of_class(found)
    grant = found.grant
    if grant is None:
        return None
    document = _allocation(found, grant)
    document["made_room"] = [
        each.event.job_id  # type: ignore[union-attr]  # victims are events about jobs
        for each in found.story.victims
        if each.round == grant.round
    ]
    return document


def _of_class(found: Explanation) -> dict[str, object] | None:
    """Return the round that told why all wait that ask for the same.

    `is_older` says that it was before this wait began, `is_older_than_job` before the job came.
    """
    if found.told is None:
        return None
    return {
        **_document_round(found.told),
        "of": "class",
        "is_older": found.is_of_class,
        "is_older_than_job": found.told.seq < found.story.own[0].seq,
    }


def _leaves(found: Explanation) -> dict[str, object] | None:
    """Return the order by which a job is about to leave its GPUs."""
    own = leaves_by(found)
    return _allocation(found, own) if own and isinstance(own.event, AllocationChanged) else None


def _allocation(found: Explanation, own: Own) -> dict[str, object]:
    assert isinstance(own.event, AllocationChanged), "an allocation is decided by one kind only"
    because = own.event.because
    is_brief = found.is_brief and own.round is not None  # the round and its rule are told instead
    return {
        **({} if own.round is None else _document_round(own.round)),
        "of": "job",
        **stamp(own.seq, own.event.at_us),
        "where": allocation_in_words(own.event.allocation),
        "rule": because.rule,
        "scores": list(because.scores),
        "scores_in_words": "" if is_brief else scores_in_words(found, own),
        "beneficiaries": list(because.beneficiaries),
        "words": "" if is_brief else decision_in_words(found, own),
    }


def _document_round(planned: Round) -> dict[str, object]:
    return {
        "seq": planned.seq,
        "round_seq": planned.seq,
        "round": planned.number,
        "at_us": planned.at_us,
        "time": clock(planned.at_us),
    }


def _agreement(found: Explanation) -> dict[str, object]:
    agreement, planned = found.agreement, found.planned
    return {
        "checked": agreement.checked,
        "agrees": agreement.agrees if agreement.checked else None,
        "reason": None if agreement.replanned is None else str(agreement.replanned),
        "starts": planned.starts,
        "after_seq": planned.seq or None,
        "at_us": planned.at_us if planned.seq else None,
        "problem": agreement.problem,
    }


def _shares(found: Explanation) -> list[dict[str, object]]:
    total_us = sum(spent for _, spent in found.shares())
    return [
        {
            "reason": str(reason),
            "s": spent / 1e6,
            "share": round(spent / total_us, 4) if total_us else None,
        }
        for reason, spent in found.shares()
        if spent or not total_us
    ]


def _timeline(found: Explanation) -> list[dict[str, object]]:
    """Return waits and runs in order."""
    parts: list[tuple[int, bool, dict[str, object]]] = [
        (wait.from_us, False, _wait(found, wait)) for wait in found.waits
    ]
    for run in found.runs:
        parts += [(run.from_us, True, part) for part in _run(found, run)]
    return [part for _, _, part in sorted(parts, key=lambda part: part[:2])]


def _wait(found: Explanation, wait: Waiting) -> dict[str, object]:
    return {
        "what": "wait",
        "from_us": wait.from_us,
        "to_us": wait.to_us,
        "reasons": [
            {
                "reason": str(part.wait.reason),
                "from_us": part.from_us,
                "to_us": part.to_us,
                "seq": part.told.seq if part.told else None,
            }
            for part in found.reasons
            if wait.from_us <= part.from_us and (wait.to_us is None or part.to_us <= wait.to_us)
        ],
    }


def _run(found: Explanation, run: RunSpan) -> list[dict[str, object]]:
    """Return an attempt: its launch, if that waited, and when it held GPUs."""
    held_from_us, decision = found.held_from_us(run), run.decision
    held: dict[str, object] = {
        "what": "run",
        "attempt": run.attempt,
        "from_us": held_from_us,
        "to_us": run.to_us,
        "where": allocation_in_words(run.allocation),
        "in_turns": run.allocation.sharing is Sharing.sliced,
        "gpus": run.allocation.gpus,
        "decision_seq": None if decision is None else decision.seq,
        "room_made": room_in_words(found, run),
        "ended_by": how_ended(found, run),
        "ended_seq": None if run.ended_by is None else run.ended_by.seq,
    }
    if held_from_us == run.from_us:
        return [held]
    launch = {**held, "what": "launch", "from_us": run.from_us}
    if held_from_us is None:
        return [launch]
    return [{**launch, "to_us": held_from_us, "ended_by": "", "ended_seq": None}, held]


def _totals(found: Explanation) -> dict[str, object]:
    end = found.story.end
    job = found.job  # it counts also the one by which it is leaving now
    preempted = sum(1 for run in found.runs if is_preempted(run))
    return {
        "wait_s": found.unheld_us / 1e6,
        "held_s": found.held_us / 1e6,
        "jct_s": (None if end is None else (found.over_us - found.story.submitted.at_us) / 1e6),
        "attempts": len(found.runs),
        "preemptions": preempted if job is None else job.preemptions,
    }
