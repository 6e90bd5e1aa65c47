"""How well past forecasts held: made again from what was known then, and compared with the log.

Nobody records forecasts. One is a function of the log up to its moment, so that it can be made
again at any later time: at moments of the past, of all jobs that waited there, with nothing that
came after. A job is asked about once, at the first of the moments at which it waits.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from shunter.app.forking.fork_point import ForkPoint
from shunter.app.predictions.forecast import Forecasting
from shunter.app.predictions.history import History
from shunter.app.predictions.messages import MOMENTS, Held
from shunter.core.state import WAITING, Job
from shunter.events.values.ids import JobId

__all__ = ["held_at", "past_moments"]

APART = 2
"""A moment lies in the last half of the past, so that there was something to learn from."""


def past_moments(history: History, most: int = MOMENTS) -> list[int]:
    """Return numbers of submissions of the last half, the last one first.

    They are evenly spread, and only of jobs that had to wait: at other moments there is nothing to
    foresee.
    """
    waited = [
        seq
        for job_id, (seq, event) in history.submissions.items()
        if (starts := history.launches.get(job_id)) and starts[0] > event.at_us
    ]
    late = waited[len(waited) // APART :]
    step = max(1, len(late) // most) if most else 1
    return late[::-1][::step][:most]


async def held_at(
    forecasting: Forecasting,
    moments: Iterable[int],
    point_at: Callable[[int], Awaitable[ForkPoint]],
    known: Collection[JobId] = (),
) -> list[Held]:
    """Return how forecasts held that are made at moments.

    Args:
        forecasting: makes them.
        moments: numbers of events.
        point_at: returns the moment at the end of an event's instant.
        known: jobs that were asked about before.
    """
    done, found = set(known), list[Held]()
    for seq in moments:
        point = await point_at(seq)
        state = point.state()
        asked = [
            job.job_id
            for job in state.jobs.values()
            if _is_asked(job, forecasting.history) and job.job_id not in done
        ]
        done.update(asked)
        found.append(await _held(forecasting, point, seq, asked))
    return found


async def _held(
    forecasting: Forecasting, point: ForkPoint, seq: int, asked: Sequence[JobId]
) -> Held:
    told = await forecasting.forecast(point, asked, only_starts=True)
    history = forecasting.history
    by_p50 = by_p90 = still_open = 0
    for job_id in asked:
        start_us, limits = _next_start_us(history, job_id, point.at_us), told.starts[job_id]
        if start_us is None and (limits.p90_us is None or limits.p90_us > history.state.now_us):
            still_open += 1
            continue
        by_p50 += _is_by(start_us, limits.p50_us)
        by_p90 += _is_by(start_us, limits.p90_us)
    return Held(seq, tuple(asked), by_p50, by_p90, still_open)


def _is_by(start_us: int | None, limit_us: int | None) -> bool:
    """Say whether a job had started by a limit; one that was not told has not held."""
    return start_us is not None and limit_us is not None and start_us <= limit_us


def _is_asked(job: Job, history: History) -> bool:
    """Say whether a job waits, and has not been cancelled before it could start."""
    has_left = job.job_id in history.outcomes
    return job.phase is WAITING and (not has_left or job.job_id in history.launches)


def _next_start_us(history: History, job_id: JobId, at_us: int) -> int | None:
    """Return when a job was given GPUs next after an instant; None: not yet."""
    starts = history.launches.get(job_id, [])
    place = bisect_right(starts, at_us)
    return starts[place] if place < len(starts) else None
