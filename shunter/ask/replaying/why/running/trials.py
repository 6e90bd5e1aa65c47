"""What was tried of a job: packs and moves, what they measured, and how each ended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.why.explanation import Explanation
from shunter.ask.replaying.why.job_events import Own
from shunter.events.facts.decisions import TRIALS, TrialKept, TrialReverted, TrialStarted
from shunter.events.facts.execution import SpeedChanged, TurnStarted
from shunter.events.values.ids import JobId
from shunter.events.values.trials import Batch, TrialKind, TrialReason

_Verdict = TrialKept | TrialReverted


@dataclass(frozen=True)
class _Tried:
    """A trial with its verdicts: the first ends it, another one what was kept."""

    seq: int
    started: TrialStarted
    verdicts: tuple[tuple[int, _Verdict], ...]


def trials_of(found: Explanation) -> list[dict[str, object]]:
    """Return what was tried of a job, in order, alone or as a partner of others."""
    own = [each for each in found.story.own if isinstance(each.event, TRIALS)]
    told = sorted((*own, *found.story.tried_beside), key=lambda each: each.seq)
    return [_document(found, each) for each in _paired(told, found.story.job_id)]


def _paired(told: Sequence[Own], job_id: JobId) -> Iterator[_Tried]:
    """Yield each trial of a job, with the verdicts up to the next of its jobs."""
    for number, each in enumerate(told):
        started = each.event
        if not isinstance(started, TrialStarted) or job_id not in _names(started):
            continue
        verdicts = list[tuple[int, _Verdict]]()
        for later in told[number + 1 :]:
            event = later.event
            assert isinstance(event, TRIALS), "only such were taken"
            if not _names(started) & _names(event):
                continue
            if isinstance(event, TrialStarted):
                break
            verdicts.append((later.seq, event))
        yield _Tried(each.seq, started, tuple(verdicts))


def _names(event: TrialStarted | _Verdict) -> set[JobId]:
    """Return the jobs that a fact of a trial names."""
    return {event.job_id, *(event.partners if isinstance(event, TrialStarted) else ())}


def _document(found: Explanation, tried: _Tried) -> dict[str, object]:
    started = tried.started
    names = [started.job_id, *started.partners]
    beside = [name for name in names if name != found.story.job_id]
    running = None if found.state is None else found.state.trials.get(started.job_id)
    goes_on = running is not None and running.started_us == started.at_us
    what = f"packed with {', '.join(beside)}" if beside else "moved"
    words = f"{what} on trial at {clock(started.at_us)} (e{tried.seq})"
    words += f", with mini-batches of {_batches(started.batches)}"
    if not beside and started.baseline < 1:
        words += f" and {100 * started.baseline:.3g} % of its GPUs' time, its fair share in turns,"
    words += " before"
    for seq, verdict in tried.verdicts:
        stopped = _stopped(found, seq)
        words += f"; {_ended(verdict, started, stopped)} at {clock(verdict.at_us)} (e{seq})"
    if not tried.verdicts:
        words += "; not judged yet" if goes_on else "; it ended without a verdict"
    elif _is_over(found, tried, beside):
        words += "; it is over"
    last = tried.verdicts[0][1] if tried.verdicts else None
    return {
        "seq": tried.seq,
        "at_us": started.at_us,
        "time": clock(started.at_us),
        "trial": started.trial,
        "beside": beside,
        "baseline": started.baseline,
        "batches_before_s": _seconds(started.batches),
        "verdict": None if last is None else _NAMES[type(last)],
        "reason": "" if last is None else last.reason,
        "measured": None if last is None else last.measured,
        "batches_s": {} if last is None else _seconds(last.batches),
        "words": words,
    }


def _is_over(found: Explanation, tried: _Tried, beside: Sequence[JobId]) -> bool:
    """Say whether a pack that was kept is none any more, and no verdict says so."""
    job = None if found.state is None else found.state.jobs.get(found.story.job_id)
    was_kept = isinstance(tried.verdicts[-1][1], TrialKept) and bool(beside)
    return was_kept and job is not None and not set(beside) & set(job.packed_with)


_NAMES: dict[type[_Verdict], str] = {TrialKept: "kept", TrialReverted: "reverted"}


def _stopped(found: Explanation, seq: int) -> set[JobId]:
    """Return the job that is asked for, if it had no speed on its turn at an event."""
    told = [
        own.event.speed
        for own in found.story.own
        if own.seq < seq and isinstance(own.event, TurnStarted | SpeedChanged)
    ]
    return {found.story.job_id} if told and not told[-1] else set()


def _ended(verdict: _Verdict, started: TrialStarted, stopped: set[JobId]) -> str:
    """Return how a trial ended; `stopped` is who is known to have no speed."""
    reason, is_pack = verdict.reason, started.trial == TrialKind.pack
    if reason == TrialReason.room:
        return "each has turns of its own again, since there was room for all,"
    if reason == TrialReason.no_progress:
        return (
            _without_progress(verdict, started, stopped)
            if is_pack
            else "moved back: it made no progress"
        )
    if reason == TrialReason.not_measured:
        return "given up: too little was measured"
    batches = f"(mini-batches of {_batches(verdict.batches)})"
    if is_pack:
        kept = "kept" if isinstance(verdict, TrialKept) else "given up"
        return (
            f"{kept}: together they do {verdict.measured:.4g} times what one does alone {batches}"
        )
    share = ", by both" if started.baseline < 1 else ""
    speed = f"{verdict.measured / started.baseline:.4g} times as fast as before{share} {batches}"
    if reason == TrialReason.cost_not_met:
        return f"it stays, though the move cost more than it gained: {speed}"
    if reason == TrialReason.no_way_back:
        return f"it lost, and stays, since others have its GPUs of before: {speed}"
    return f"{'stays there' if isinstance(verdict, TrialKept) else 'moved back'}: {speed}"


def _without_progress(verdict: _Verdict, started: TrialStarted, stopped: set[JobId]) -> str:
    """Return who made no progress: had no speed, or alone measured nothing."""
    stuck = stopped or _names(started) - {each.job_id for each in verdict.batches}
    who = "".join(stuck) if len(stuck) == 1 else "one of them, or both,"
    return f"given up: {who} made no progress"


def _batches(batches: Sequence[Batch]) -> str:
    return (
        " and ".join(f"{each.batch_us / 1e3:.4g} ms ({each.job_id})" for each in batches) or "none"
    )


def _seconds(batches: Sequence[Batch]) -> dict[str, float]:
    return {each.job_id: each.batch_us / 1e6 for each in batches}
