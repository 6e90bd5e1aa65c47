"""The turns that a job had on GPUs which it shares with others, and whether it has one now."""

from shunter.app.counting import counted
from shunter.app.replaying.instants import clock, span
from shunter.app.replaying.waits import stands_still
from shunter.app.replaying.why.explanation import Explanation
from shunter.app.replaying.why.running.attempt_turns import AttemptTurns
from shunter.core.state import JobPhase
from shunter.events.values.allocation import Sharing

_NAMED = 3


def turns_of(found: Explanation) -> dict[str, object] | None:
    """Return the turns of a job in its present or last attempt; None: it took none."""
    run = found.last_run
    if run is None or run.allocation.sharing is not Sharing.sliced:
        return None
    to_us = found.story.at_us if run.to_us is None else run.to_us
    allocation = run.allocation
    is_spread = len(allocation.shares) > 1
    turns = AttemptTurns(changed_us=run.from_us, gang=allocation.gpus if is_spread else 0)
    for own in found.story.own:
        if own.seq > run.from_seq and own.event.at_us <= to_us:
            turns.take(own.event)
    on_us, of_us = turns.on_us(to_us), to_us - run.from_us
    is_on = run.to_us is None and turns.is_on
    others = _others(found)
    words = _so_far(turns.count, on_us, of_us) + _skew_in_words(turns.skews_us)
    where = " and ".join(share.node for share in allocation.shares)
    if run.to_us is None:
        now = f"it {'has' if is_on else 'waits for'} its turn on {where}"
        since_us = run.from_us if not turns.count else turns.changed_us or 0
        beside = f", beside {_named(others)}" if others else ", alone"
        since = f" since {clock(since_us)}"
        if found.phase != JobPhase.running:
            now, since = f"it is {found.phase} on {where}, out of turns", ""
        words = f"{now}{since}{beside}; {words}"
    return {
        "turns": turns.count,
        "on_s": on_us / 1e6,
        "of_s": of_us / 1e6,
        "is_on": is_on,
        "others": others,
        "skew_most_s": max(turns.skews_us) / 1e6 if turns.skews_us else None,
        "words": words,
    }


def _others(found: Explanation) -> list[str]:
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


def _so_far(count: int, on_us: int, of_us: int) -> str:
    part = f" ({100 * on_us / of_us:.0f} %)" if of_us else ""
    return f"{counted(count, 'turn')}, {span(on_us)} of {span(of_us)}{part}"


def _skew_in_words(skews_us: list[int]) -> str:
    """Return how far apart the servers of a gang began its turns."""
    if not skews_us:
        return ""
    mean_ms, most_ms = sum(skews_us) / len(skews_us) / 1e3, max(skews_us) / 1e3
    return f"; its servers began them {mean_ms:.3g} ms apart in the mean, {most_ms:.3g} at most"


def _named(others: list[str]) -> str:
    hidden = len(others) - _NAMED
    return ", ".join(others[:_NAMED]) + (f" and {hidden} more" if hidden > 0 else "")
