"""The turns that a job had on GPUs which it shares with others, and whether it has one now."""

from collections.abc import Sequence

from shunter.app.counting import counted
from shunter.app.replaying.instants import clock, span
from shunter.app.replaying.why.explanation import Explanation
from shunter.app.replaying.why.job_events import Own
from shunter.app.replaying.why.timeline import Run
from shunter.events.facts.execution import AttemptEnded, JobSuspended, TurnEnded, TurnStarted
from shunter.events.values.allocation import Sharing

_ENDS = (TurnEnded, JobSuspended, AttemptEnded)
_NAMED = 3


def turns_of(found: Explanation) -> dict[str, object] | None:
    """Return the turns of a job in its present or last attempt; None: it took none."""
    run = found.last_run
    if run is None or run.allocation.sharing is not Sharing.sliced:
        return None
    to_us = found.story.at_us if run.to_us is None else run.to_us
    turns = _turns(found.story.own, run)
    last = turns[-1] if turns else None
    on_us = sum((to_us if end_us is None else end_us) - begin_us for begin_us, end_us in turns)
    of_us = to_us - run.from_us
    is_on = run.to_us is None and last is not None and last[1] is None
    others = _others(found)
    words = _so_far(len(turns), on_us, of_us)
    if run.to_us is None:
        now = f"it {'has' if is_on else 'waits for'} its turn on {run.allocation.shares[0].node}"
        since_us = run.from_us if last is None else last[0] if last[1] is None else last[1]
        beside = f", beside {_named(others)}" if others else ", alone"
        words = f"{now} since {clock(since_us)}{beside}; {words}"
    return {
        "turns": len(turns),
        "on_s": on_us / 1e6,
        "of_s": of_us / 1e6,
        "is_on": is_on,
        "others": others,
        "words": words,
    }


def _turns(own: Sequence[Own], run: Run) -> list[tuple[int, int | None]]:
    """Return when each turn of an attempt began and ended; None: with the attempt."""
    turns: list[tuple[int, int | None]] = []
    for each in own:
        event = each.event
        is_over = run.to_us is not None and event.at_us > run.to_us
        if each.seq <= run.from_seq or is_over:
            continue
        if isinstance(event, TurnStarted) and event.attempt == run.attempt:
            turns.append((event.at_us, None))
        elif isinstance(event, _ENDS) and turns and turns[-1][1] is None:
            turns[-1] = (turns[-1][0], event.at_us)
    if turns and turns[-1][1] is None and run.to_us is not None:
        turns[-1] = (turns[-1][0], run.to_us)
    return turns


def _others(found: Explanation) -> list[str]:
    """Return who else takes turns on the server of a running job, by submission."""
    run, state = found.last_run, found.state
    if run is None or run.to_us is not None or state is None:
        return []
    node = run.allocation.shares[0].node
    return [
        job.job_id
        for job in state.jobs.values()
        if job.job_id != found.story.job_id
        and job.held.sharing is Sharing.sliced
        and job.held.shares[0].node == node
    ]


def _so_far(count: int, on_us: int, of_us: int) -> str:
    part = f" ({100 * on_us / of_us:.0f} %)" if of_us else ""
    return f"{counted(count, 'turn')}, {span(on_us)} of {span(of_us)}{part}"


def _named(others: list[str]) -> str:
    hidden = len(others) - _NAMED
    return ", ".join(others[:_NAMED]) + (f" and {hidden} more" if hidden > 0 else "")
