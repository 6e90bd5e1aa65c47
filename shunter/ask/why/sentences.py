"""Explanations in words, made from their numbers: the answer first, then what it rests on."""

from dataclasses import replace

from shunter.ask.scores import decision_score, gpu_time_in_words, score_in_words
from shunter.ask.waits import STOPPED
from shunter.ask.why.explanation import Explanation, order_to_leave, phase_since_us
from shunter.ask.why.job_events import Own, Round
from shunter.ask.why.present import NAMED, Group, Room
from shunter.ask.why.reasons import reason_in_words
from shunter.ask.why.running import shares_before
from shunter.ask.why.timeline import RunSpan, Segment, ended_as, is_displacement
from shunter.ask.words import (
    allocation_in_words,
    attempt_end_in_words,
    because_in_words,
    clock,
    discarded_in_words,
    first_of,
    gpus_in_words,
    names_partners,
    rejection_in_words,
    span,
    stamp,
    tells_itself,
)
from shunter.core import JobPhase
from shunter.counting import counted, signal_in_words
from shunter.events import (
    BY_POLICY,
    DEPENDENCY,
    EXITED,
    HELD,
    RESIZED,
    Allocation,
    DependsWhen,
    JobId,
    Reason,
    Sharing,
    facts,
    is_preemption,
)

_SERVERS_NAMED = 4
OTHERS_NAMED = 4
DISCARDED_NAMED = 3
SEEN_LATE_US = 1_000_000


def headline(found: Explanation) -> str:
    """Return the answer in one sentence."""
    story, phase = found.story, found.phase
    now = found.waits_now
    if phase == JobPhase.granted and found.job is not None:
        named, where = _others(found), _where(found.job.allocation)
        return f"{story.job_id} was granted {where}, and waits until {named} left it"
    if now is not None:
        waits_us = story.at_us - found.waits[-1].from_us
        return f"{story.job_id} has waited for {span(waits_us)}: {now.wait.reason}"
    run = found.last_run
    if found.outcome is not None:
        return f"{story.job_id} {_ended(found)}"
    if run is None:
        return f"{story.job_id} is {phase}"
    for_us = story.at_us - _since_us(found, run)
    holds = found.job.held if found.job and found.job.held.shares else run.allocation
    where = _where(holds)
    if holds.sharing is Sharing.sliced and phase == JobPhase.running:  # each turn says on which
        nodes = tuple(replace(share, gpu_mask=0) for share in holds.shares)
        where = f"{_where(Allocation(nodes))}, in turns,"
    return f"{story.job_id} has been {phase} on {where} for {span(for_us)} (attempt {run.attempt})"


def _since_us(found: Explanation, run: RunSpan) -> int:
    """Return since when an attempt has been stopped, leaving, over or at work."""
    own = [(each.seq, each.event) for each in found.story.own]
    if found.phase == STOPPED:
        stops = [each.at_us for seq, each in own if isinstance(each, facts.JobStopped)]
        return max([run.from_us, *stops])
    if found.job is not None and found.phase in (JobPhase.suspending, JobPhase.ending):
        since_us = phase_since_us(found.job, own)
        return run.from_us if since_us is None else since_us
    return run.from_us


def details(found: Explanation) -> list[str]:
    """Return the evidence in sentences, the most important first."""
    now = found.waits_now
    if now is None or found.phase == JobPhase.granted:
        return _placed(found) + _killed(found) + _discarded(found)
    lines = [*_because(found, now), *found.losses, *_killed(found), *_discarded(found)]
    if found.is_of_class and now.told is not None:
        lines.append(_of_class(found, now.told))
    lines += _dated(found, now)
    if now.wait.reason is not Reason.quota:
        lines += _kept_for_others(found.present.gpus)
    state = found.there
    if state.targets_status:
        lines.append(f"shares are the last that could be computed: {state.targets_status}")
    if state.policy_fault:
        lines.append(f"the policy failed, and nothing was decided: {state.policy_fault}")
    lines += rank_lines(found)
    if found.present.starves_us is not None:
        at = clock(found.present.starves_us)
        lines.append(f"if it waits until {at}, it has starved and goes to the head of the line")
    return lines + _promised(found, now)


def _promised(found: Explanation, now: Segment) -> list[str]:
    """Return from when on GPUs are promised to a job, or whose promise it waits for."""
    present, promised_us = found.present, found.there.reservations.get(found.story.job_id)
    if promised_us is not None:
        line = f"GPUs are promised to it from {clock(promised_us)} on"
        return [f"{line}; {present.promise_basis}" if present.promise_basis else line]
    if not present.outlasts or now.wait.reason is not Reason.outranked:
        return []
    return [present.outlasts]


def _kept_for_others(room: Room) -> list[str]:
    """Say for whom what is free is, where job schedulers have yet to propose it."""
    if not room.free or not room.kept:
        return []
    names = first_of(room.kept_for, NAMED)
    gpus = min(room.kept, room.free)
    is_for = "is for" if gpus == 1 else "are for"
    said = f"{gpus_in_words(gpus)} of what is free {is_for} {names}"
    return [f"{said}: before it in the order, with a place yet to be proposed"]


def is_preempted(run: RunSpan) -> bool:
    """Say whether an attempt ended because its GPUs were taken from it."""
    event = None if run.ended_by is None else run.ended_by.event
    return isinstance(event, facts.AllocationChanged) and is_preemption(event)


def how_ended(found: Explanation, run: RunSpan) -> str:
    """Return what ended an attempt; empty while it lasts."""
    if run.ended_by is None:
        return ""
    event = run.ended_by.event
    if isinstance(event, facts.AllocationChanged):
        if event.allocation.shares:
            where = _where(event.allocation)
            if run.allocation.gpus == event.allocation.gpus:
                gainers = () if names_partners(event.because) else event.because.beneficiaries
                return f"moved to {where}{f' for {first_of(gainers, NAMED)}' if gainers else ''}"
            return f"resized to {where}: {decision_in_words(found, run.ended_by)}"
        if event.because == RESIZED:
            return f"resized: {decision_in_words(found, run.ended_by)}"
        if event.because == HELD:
            return f"suspended: {decision_in_words(found, run.ended_by)}"
        if is_displacement(event):
            return f"displaced: {decision_in_words(found, run.ended_by)}"
        return f"preempted: {decision_in_words(found, run.ended_by)}"
    if isinstance(event, facts.JobFailed) and (signal := _signal(found, event)):
        return f"failed: killed by {signal}"
    return attempt_end_in_words(event)


def _signal(found: Explanation, failed: facts.JobFailed) -> str:
    """Return the signal that killed the last attempt of a job that failed by itself."""
    ends = [own.event for own in found.story.own if isinstance(own.event, facts.AttemptEnded)]
    if failed.cause != EXITED or not ends or ends[-1].signal is None:
        return ""
    return signal_in_words(ends[-1].signal)


def _others(found: Explanation) -> str:
    """Return who has yet to leave the GPUs that a job was granted."""
    blockers = () if found.evidence is None else found.evidence.blockers
    if not blockers:
        return "others have"
    names = [f"{job_id} ({found.there.jobs[job_id].phase})" for job_id in blockers]
    return f"{first_of(names, OTHERS_NAMED)} {'has' if len(blockers) == 1 else 'have'}"


def _where(allocation: Allocation) -> str:
    """Return where an allocation is, with as many servers as a sentence can bear."""
    return allocation_in_words(allocation, _SERVERS_NAMED)


def _ended(found: Explanation) -> str:
    end = found.story.end
    assert end is not None, "an outcome has an event"
    event = end.event
    at = clock(event.at_us)
    if isinstance(event, facts.JobRejected):
        why = rejection_in_words(event, found.story.spec, found.cluster)
        return f"was rejected at {at} as {event.reason}{': ' if why else ''}{why}"
    over_us = found.over_us
    total_us = over_us - found.story.submitted.at_us
    seen = f" (seen at {clock(event.at_us)})" if event.at_us - over_us >= SEEN_LATE_US else ""
    at = f"{clock(over_us)}{seen}"
    split = (
        f"after {span(total_us)}: {span(found.unheld_us)} waiting, {span(found.held_us)} on servers"
    )
    if isinstance(event, facts.JobFinished):
        return f"finished at {at}, {split}"
    if isinstance(event, facts.JobFailed):
        code = "" if event.exit_code is None else f" with code {event.exit_code}"
        what = "hit its time limit" if event.cause == "timeout" else f"failed{code}"
        if signal := _signal(found, event):
            what = f"was killed by {signal}"
        why = "" if event.cause in ("timeout", "exit") else f" ({event.cause})"
        return f"{what}{why} at {at}, {split}"
    assert isinstance(event, facts.JobCancelled), "there is no other end"
    cause = f" ({event.cause})" if event.cause and event.cause != "cancelled" else ""
    asked = [
        own.event for own in found.story.own if isinstance(own.event, facts.JobCancelRequested)
    ]
    by = f" by {asked[-1].by}" if asked and asked[-1].by else ""
    by += f" with all of group {asked[-1].group!r}" if asked and asked[-1].group else ""
    cause = _unmet(found) if event.cause == DEPENDENCY else cause
    return f"was cancelled{by}{cause} at {at}, {split}"


def _unmet(found: Explanation) -> str:
    """Return which job ended otherwise than a cancelled one needs, and how."""
    unmet = next(
        (
            (each.job_id, found.ended[each.job_id])
            for each in found.story.spec.depends_on
            if each.when is not DependsWhen.any
            and found.ended.get(each.job_id, facts.Outcome.finished) is not facts.Outcome.finished
        ),
        None,
    )
    if unmet is None:
        return f" ({DEPENDENCY})"
    return f" ({DEPENDENCY}: it needs {unmet[0]} to end well, which ended as {unmet[1]})"


def _placed(found: Explanation) -> list[str]:
    """Return why a job runs where it does, or last ran there."""
    grant = found.grant
    if grant is None or found.outcome is not None:
        return []
    event, planned = grant.event, grant.round
    assert isinstance(event, facts.AllocationChanged), "a grant is an allocation"
    number = "" if planned is None else f" of round {planned.number}"
    lines = [
        (
            f"placed by e{grant.seq}{number} at {clock(event.at_us)}: "
            f"{decision_in_words(found, grant)}"
        )
    ]
    lines += _rehomed(found, grant.seq)
    lines += [f"{', '.join(names)} {what} for it" for what, names in _room_made(found, planned)]
    told = found.leaves_because
    if told is not None:
        event = told.event
        lines.append(
            f"it was displaced at {clock(event.at_us)}: {decision_in_words(found, told)}; it waits "
            "again once its attempt is over"
        )
    else:
        lines += leaving_in_words(found)
    earlier = found.runs if found.phase == JobPhase.granted else found.runs[:-1]
    if earlier:
        before = earlier[-1]
        where = _where(before.allocation)
        lines.append(f"attempt {before.attempt} on {where} was {how_ended(found, before)}")
        lines += found.losses
    return lines


def room_in_words(found: Explanation, run: RunSpan) -> str:
    """Return who had to leave or to move for an attempt; empty: nobody."""
    if run.decision is None:
        return ""
    made = _room_made(found, run.decision.round)
    return ", ".join(f"{first_of(names, NAMED)} {what}" for what, names in made)


def _room_made(found: Explanation, planned: Round | None) -> list[tuple[str, list[JobId]]]:
    """Return what others had to do for a job in a round, and who they are."""
    changes = [own.event for own in found.story.victims if own.round == planned]
    victims = [event for event in changes if isinstance(event, facts.AllocationChanged)]
    made = [
        ("had to leave", [each.job_id for each in victims if not each.allocation.shares]),
        ("had to move", [each.job_id for each in victims if each.allocation.shares]),
    ]
    return [(what, names) for what, names in made if names]


def _rehomed(found: Explanation, granted_seq: int) -> list[str]:
    """Return which other GPUs a job has its turns on since it was placed."""
    told = [
        (own.seq, own.event)
        for own in found.story.own
        if own.seq > granted_seq and isinstance(own.event, facts.JobReshaped)
    ]
    moved = [each for each in told if each[1].allocation.sharing is Sharing.sliced][-1:]
    return [
        f"its turns are on {_where(event.allocation)} since {clock(event.at_us)} (e{seq}): "
        f"{because_in_words(event.because)}"
        for seq, event in moved
    ]


def _killed(found: Explanation) -> list[str]:
    """Return what the kernel killed of the last attempt for want of memory."""
    ends = [own for own in found.story.own if isinstance(own.event, facts.AttemptEnded)]
    if not ends or found.grant is None or ends[-1].seq < found.grant.seq:
        return []
    end = ends[-1].event
    assert isinstance(end, facts.AttemptEnded), "only such were taken"
    if not end.memory_kills:
        return []
    has = shares_before(found, ends[-1].seq)
    where = ", ".join(f"{share.memory_mb:,} MB on {share.node}" for share in has)
    count = f"{end.memory_kills} process{'es' if end.memory_kills > 1 else ''}"
    said = f"the kernel killed {count} of attempt {end.attempt} (e{ends[-1].seq}), which used more"
    return [f"{said} memory than its share, the limit it was held to: {where}"]


def _because(found: Explanation, now: Segment) -> list[str]:
    """Return who took its GPUs, if that is why it waits, and what it finds."""
    evidence = found.evidence
    assert evidence is not None, "a job that waits has a reason"
    finds = reason_in_words(found, evidence)
    after = found.waits[-1].after
    told = now.told
    is_told_since = told is not None and told != after.round and told.seq > after.seq
    is_later = now.wait.reason in _LATER or is_told_since
    if isinstance(after.event, facts.AllocationChanged) and not is_later:
        why = decision_in_words(found, after)
        if after.event.because == HELD:
            return [f"it was suspended at {clock(after.event.at_us)}: {why}", finds]
        if after.event.because == RESIZED:
            return [f"it left its GPUs at {clock(after.event.at_us)}: {why}", finds]
        if is_displacement(after.event):
            return [f"it was displaced at {clock(after.event.at_us)}: {why}", *_found(now, finds)]
        return [f"it was preempted at {clock(after.event.at_us)}: {why}", finds]
    return [finds]


def _found(now: Segment, finds: str) -> list[str]:
    """Return what a job finds, unless that it was displaced says it already."""
    return [] if now.wait.reason is Reason.displaced else [finds]


def _dated(found: Explanation, now: Segment) -> list[str]:
    """Return of which instants reason and numbers are, and what a plan finds now."""
    present, told = found.present, now.told
    if told is None or found.reason_us == found.story.at_us:
        return []
    words = (
        f"{now.wait.reason} is what round {told.number} found at {clock(told.at_us)}; "
        f"the numbers are of {clock(found.story.at_us)}"
    )
    if present.wait is not None:
        again = present.wait.reason
        same = "the same" if again is now.wait.reason else str(again)
        words += f", and if nothing else happens the next round finds {same}"
    return [words]


def _discarded(found: Explanation) -> list[str]:
    """Return which checkpoints a job goes on without, and why."""
    events = [
        own.event for own in found.story.own if isinstance(own.event, facts.CheckpointDiscarded)
    ]
    return [discarded_in_words(event) for event in events[-DISCARDED_NAMED:]]


_LATER = (Reason.checkpoint_unreachable, Reason.checkpoint_stays)
"""Reasons that begin after a job has left its GPUs, whyever it did."""


def _of_class(found: Explanation, told: Round) -> str:
    """Return that a reason is older than the wait, and whose it is."""
    came = "it had this size"
    if told.seq < found.waits[-1].after.seq:
        came = "it came" if told.seq < found.story.own[0].seq else "this wait began"
    return (
        f"jobs that ask for the same have waited for that since {clock(told.at_us)}, "
        f"before {came}, and no round since then found another reason"
    )


# Decisions about a job.


def decision_in_words(found: Explanation, own: Own) -> str:
    """Return why something was decided about the job: rule, scores, gainers."""
    event = own.event
    assert isinstance(event, facts.AllocationChanged), "an allocation is decided by one kind only"
    because = event.because
    if because == HELD:
        return f"held{by_in_words(found, own)}"
    if because == RESIZED:
        sizes = [each.event for each in found.story.own if each.seq < own.seq]
        wish = next(event for event in reversed(sizes) if isinstance(event, facts.JobResized))
        return f"{resized_by(wish)} wants it to have {gpus_in_words(wish.gpus)}"
    return because_in_words(because, scores_in_words(found, own))


def by_in_words(found: Explanation, own: Own) -> str:
    """Return by whom a job was put on hold that left its GPUs for that."""
    holds = [each.event for each in found.story.own if each.seq < own.seq]
    by = next((event.by for event in reversed(holds) if isinstance(event, facts.JobHeld)), "")
    return f" by {by}" if by else ""


def scores_in_words(found: Explanation, own: Own) -> str:
    """Return what the scores of a decision say; empty where nobody can tell."""
    event = own.event
    if not isinstance(event, facts.AllocationChanged) or not event.because.scores:
        return ""
    if tells_itself(event.because):
        return ""
    measures = found.measures_at(own.seq)
    return decision_score(event.because, measures, found.used_gpu_us(event.at_us))


def rank_in_words(found: Explanation) -> str:
    """Return what the score says that the job has at the instant asked for."""
    place = found.present.place
    if place is None:
        return ""
    used_gpu_us = found.used_gpu_us(found.story.at_us)
    return score_in_words(found.measures_at(found.story.seq), place.score, used_gpu_us)


def rank_lines(found: Explanation) -> list[str]:
    """Return where a job ranks, and what those before it have left to do."""
    place = found.present.place
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


def became(found: Explanation) -> list[str]:
    """Return what became of a waiting job, if the log goes on."""
    later, story = found.later, found.story
    if later is None:
        return []
    if isinstance(later.event, facts.AllocationChanged):
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


def size_of(found: Explanation) -> dict[str, object] | None:
    """Return who gave the job its size; None: it has the one it was submitted with."""
    told = [own for own in found.story.own if isinstance(own.event, facts.JobResized)]
    if not told:
        return None
    last, event = told[-1], told[-1].event
    assert isinstance(event, facts.JobResized), "only such were taken"
    spec = found.story.submitted.spec
    fewest, most = spec.sizes
    when = f"{clock(event.at_us)} (e{last.seq}) by {resized_by(event)}"
    size = f"its gang was given {counted(event.gpus, 'GPU')} at {when}"
    return {
        **stamp(last.seq, event.at_us),
        "gpus": event.gpus,
        "by": resized_by(event),
        "submitted_with": spec.gpus,
        "words": f"{size}; submitted with {spec.gpus}, and may have {fewest} to {most}",
    }


def resized_by(event: facts.JobResized) -> str:
    """Return who wanted another size, in words."""
    return "the policy" if event.by == BY_POLICY else event.by or "somebody"


def leaves_by(found: Explanation) -> Own | None:
    """Return what makes a job leave its GPUs that is about to; None: nothing does."""
    job = found.job
    if job is None or job.phase is not JobPhase.suspending:
        return None
    order = order_to_leave(job, [(own.seq, own.event) for own in found.story.own])
    if order is None:
        return None
    return next(own for own in found.story.own if own.seq == order[0])


def leaving_in_words(found: Explanation) -> list[str]:
    """Return when it was told to leave, by which decision, why, and for whom."""
    own = leaves_by(found)
    if own is None:
        return []
    event, at = own.event, clock(own.event.at_us)
    if isinstance(event, facts.JobSuspended):
        cause = f": {event.cause}" if event.cause else ""
        return [f"it stopped by itself at {at} (e{own.seq}){cause}; it has yet to leave its GPUs"]
    assert isinstance(event, facts.AllocationChanged), "nothing else makes it leave"
    goes = f"move to {allocation_in_words(event.allocation, _SERVERS_NAMED)}"
    what = goes if event.allocation.shares else "leave"
    number = "" if own.round is None else f" of round {own.round.number}"
    why, because = decision_in_words(found, own), event.because
    gain = f" for {', '.join(because.beneficiaries)}"
    if because.beneficiaries and gain not in why and not names_partners(because):
        why += f",{gain}"
    return [f"it was told to {what} at {at} by e{own.seq}{number}: {why}"]
