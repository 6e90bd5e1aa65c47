"""The turns that a job had on GPUs which it shares with others, and whether it has one now.

At an instant at which the scheduler was away, turns are told as the log has them since: a turn was
seen late that says when it began or ended (`Explanation.told_later`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shunter.ask.replaying.formatting import allocation_in_words
from shunter.ask.replaying.instants import clock, span
from shunter.ask.replaying.waits import stands_still
from shunter.ask.replaying.why.explanation import Explanation
from shunter.ask.replaying.why.running.attempt_turns import AttemptTurns
from shunter.ask.replaying.why.timeline import Run
from shunter.core.state import Job, JobPhase
from shunter.counting import counted
from shunter.events.facts.execution import AttemptEnded, JobContinued, TurnEnded, TurnStarted
from shunter.events.kinds import Event
from shunter.events.values.allocation import Allocation, Sharing
from shunter.events.values.ids import JobId

_NAMED = 3


@dataclass(frozen=True)
class _Had:
    """The turns of one attempt, or of several; times in microseconds."""

    turns: int
    on_us: int
    of_us: int

    def __add__(self, other: "_Had") -> "_Had":
        return _Had(self.turns + other.turns, self.on_us + other.on_us, self.of_us + other.of_us)

    def __str__(self) -> str:
        part = f" ({100 * self.on_us / self.of_us:.0f} %)" if self.of_us else ""
        return f"{counted(self.turns, 'turn')}, {span(self.on_us)} of {span(self.of_us)}{part}"

    def document(self) -> dict[str, object]:
        return {"turns": self.turns, "on_s": self.on_us / 1e6, "of_s": self.of_us / 1e6}


def turns_of(found: Explanation) -> dict[str, object] | None:
    """Return the turns of a job in its present or last attempt; None: it took none.

    `all` are those of all its attempts that took turns.
    """
    run = found.last_run
    if run is None or run.allocation.sharing is not Sharing.sliced:
        return None
    turns, had = _of_run(found, run)
    runs = [each for each in found.runs if each.allocation.sharing is Sharing.sliced]
    all_had = sum([_of_run(found, each)[1] for each in runs[:-1]], had)
    words = str(had)
    if len(found.runs) > 1:
        words += f" in attempt {run.attempt}"
    words += _skew_in_words(turns.skews_us)
    if len(runs) > 1:
        words += f"; {all_had} in all its {len(runs)} attempts with turns"
    if run.to_us is None:
        words = f"{_now(found, run, turns)}; {words}"
    if found.told_later:
        words += f"; as was seen at {clock(found.told_later[-1].at_us)}"
    return {
        **had.document(),
        "attempt": run.attempt,
        "all": {"attempts": len(runs), **all_had.document()},
        "is_on": run.to_us is None and turns.is_on,
        "others": _others(found),
        "skew_most_s": max(turns.skews_us) / 1e6 if turns.skews_us else None,
        "words": words,
    }


def _of_run(found: Explanation, run: Run) -> tuple[AttemptTurns, _Had]:
    """Return the turns of an attempt, up to its end or the instant asked for."""
    to_us = found.story.at_us if run.to_us is None else run.to_us
    gpus = run.allocation.gpus if run.allocation.is_spread else 0
    turns = AttemptTurns(changed_us=run.from_us, gang=gpus)
    later = [each.from_seq for each in found.runs if each.from_seq > run.from_seq]
    for own in found.story.own:
        if run.from_seq < own.seq <= min(later, default=own.seq) and _noted_us(own.event) <= to_us:
            turns.take(own.event)
    for event in found.told_later if run.to_us is None else ():
        turns.take(event)
    return turns, _Had(turns.count, turns.on_us(to_us), to_us - run.from_us)


def _noted_us(event: Event) -> int:
    """Return when a turn changed or processes went, though that was seen later."""
    noted_us: int | None = None
    if isinstance(event, TurnStarted):
        noted_us = event.began_us
    elif isinstance(event, TurnEnded | AttemptEnded):
        noted_us = event.ended_us
    return event.at_us if noted_us is None else noted_us


def _now(found: Explanation, run: Run, turns: AttemptTurns) -> str:
    """Return whether it has its turn, where, since when, and who else is there."""
    nodes = " and ".join(share.node for share in run.allocation.shares)
    others = _others(found)
    partners = _partners(found, others) if turns.is_on else []
    gone = [each for each in found.told_later if isinstance(each, AttemptEnded)]
    if gone:
        now = f"its processes on {nodes} were gone since {clock(_noted_us(gone[-1]))}"
    elif found.phase != JobPhase.running:
        now = f"it is {found.phase} on {nodes}, out of turns"
    elif turns.is_on:
        places = tuple(turns.places[node] for node in sorted(turns.places))
        where = allocation_in_words(Allocation(places))
        now = f"it has its turn on {where} since {clock(turns.changed_us or 0)}"
        now += f", together with {_named(partners)}" if partners else ""
    else:
        own = [each.event for each in found.story.own if each.seq > run.from_seq]
        goes_on = [event.at_us for event in own if isinstance(event, JobContinued)]
        since_us = max([turns.changed_us or 0, *goes_on])
        now = f"it waits for its turn on {nodes} since {clock(since_us)}"
    rest = [name for name in others if name not in partners]
    if rest:
        return f"{now}; {_named(rest)} {'has' if len(rest) == 1 else 'have'} turns on {nodes} too"
    return now if partners else f"{now}, alone"


def _others(found: Explanation) -> list[JobId]:
    """Return who else takes turns on a job's servers, by submission."""
    run, state = found.last_run, found.state
    if run is None or run.to_us is not None or state is None:
        return []
    nodes = {share.node for share in run.allocation.shares}
    return [
        job.job_id
        for job in state.jobs.values()
        if job.job_id != found.story.job_id
        and job.takes_turns
        and not stands_still(job)
        and not nodes.isdisjoint([share.node for share in job.held.shares])
    ]


def _partners(found: Explanation, others: Sequence[JobId]) -> list[JobId]:
    """Return who has a turn on the very GPUs that the job has now."""
    job, state = found.job, found.state
    if job is None or state is None or found.told_later:
        return []
    return [name for name in others if _is_with(job, state.jobs[name])]


def _is_with(job: Job, other: Job) -> bool:
    if not other.gpus:
        return False
    if job.is_spread or other.is_spread:  # which GPUs of which server a gang has is not kept
        return other.job_id in job.packed_with
    return bool(job.turn_mask & other.turn_mask)


def _skew_in_words(skews_us: list[int]) -> str:
    """Return how far apart the servers of a gang began its turns."""
    if not skews_us:
        return ""
    mean_ms, most_ms = sum(skews_us) / len(skews_us) / 1e3, max(skews_us) / 1e3
    return f"; its servers began them {mean_ms:.3g} ms apart in the mean, {most_ms:.3g} at most"


def _named(others: Sequence[str]) -> str:
    hidden = len(others) - _NAMED
    return ", ".join(others[:_NAMED]) + (f" and {hidden} more" if hidden > 0 else "")
