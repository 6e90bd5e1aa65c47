"""How well past forecasts held: made again from what was known then, and compared with the log.

Nobody records forecasts. One is a function of the log up to its moment, so that it can be made
again at any later time: at moments of the past, with nothing that came after, when those would
start that waited there, and when all would end. A job is asked about its start once, at the first
of the moments at which it waits, and about its end once. Who was cancelled is not asked about.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from shunter.app.forking.fork_point import ForkPoint
from shunter.app.forking.remaining import ENOUGH
from shunter.app.predictions.forecast import Forecasting, Quantiles
from shunter.app.predictions.history import History
from shunter.app.predictions.messages import MOMENTS, Held, Kept
from shunter.core.state import WAITING, Job
from shunter.events.facts.jobs import Outcome
from shunter.events.values.ids import JobId

APART = 2
"""A moment lies in the last half of the past, so that there was something to learn from."""


def past_moments(history: History, most: int = MOMENTS) -> list[int]:
    """Return numbers of submissions of the last half, the last one first.

    They are evenly spread, and only of jobs that had to wait: at other moments there is nothing to
    foresee. Before enough jobs had ended nothing was foretold.
    """
    waited = [
        (seq, event.at_us)
        for job_id, (seq, event) in history.submissions.items()
        if (starts := history.launches.get(job_id)) and starts[0] > event.at_us
    ]
    ends_us = [at_us for at_us, _, work in history.worked if work.is_whole]
    known_us = ends_us[ENOUGH - 1] if len(ends_us) >= ENOUGH else history.state.now_us + 1
    late = [seq for seq, at_us in waited[len(waited) // APART :] if at_us >= known_us]
    step = max(1, len(late) // most) if most else 1
    return late[::-1][::step][:most]


async def held_at(
    forecasting: Forecasting,
    moments: Iterable[int],
    point_at: Callable[[int], Awaitable[ForkPoint]],
    known: Iterable[Held] = (),
) -> list[Held]:
    """Return how forecasts held that are made at moments.

    Args:
        forecasting: makes them.
        moments: numbers of events.
        point_at: returns the moment at the end of an event's instant.
        known: how others held, whose jobs are not asked about again.
    """
    started, ended = set[JobId](), set[JobId]()
    for each in known:
        started.update(each.starts.jobs)
        ended.update(each.ends.jobs)
    found: list[Held] = []
    for seq in moments:
        point = await point_at(seq)
        jobs = [job for job in point.state().jobs.values() if _is_asked(job, forecasting.history)]
        starts = [job.job_id for job in jobs if job.phase is WAITING and job.job_id not in started]
        ends = [job.job_id for job in jobs if job.job_id not in ended]
        started.update(starts)
        ended.update(ends)
        found.append(await _held(forecasting, point, seq, starts, ends))
    return found


async def _held(
    forecasting: Forecasting,
    point: ForkPoint,
    seq: int,
    starts: Sequence[JobId],
    ends: Sequence[JobId],
) -> Held:
    history = forecasting.history
    told = await forecasting.forecast(point, dict.fromkeys((*starts, *ends)))
    started = {job_id: _next_start_us(history, job_id, point.at_us) for job_id in starts}
    ended = {job_id: history.ends.get(job_id) for job_id in ends}
    now_us = history.state.now_us
    return Held(seq, kept_of(started, told.starts, now_us), kept_of(ended, told.ends, now_us))


def kept_of(came: Mapping[JobId, int | None], told: Mapping[JobId, Quantiles], now_us: int) -> Kept:
    """Return how forecasts held.

    Args:
        came: when it came, what was foretold; None: it has not.
        told: what was foretold.
        now_us: the instant it is.
    """
    counted = [
        (came_us, told[job_id])
        for job_id, came_us in came.items()
        if (p90_us := told[job_id].p90_us) is not None and p90_us <= now_us
    ]
    by_p50 = sum(_is_by(came_us, limits.p50_us) for came_us, limits in counted)
    by_p90 = sum(_is_by(came_us, limits.p90_us) for came_us, limits in counted)
    return Kept(tuple(came), by_p50, by_p90, len(came) - len(counted))


def _is_by(came_us: int | None, limit_us: int | None) -> bool:
    """Say whether something had come by a limit."""
    return came_us is not None and limit_us is not None and came_us <= limit_us


def _is_asked(job: Job, history: History) -> bool:
    """Say whether nobody ended a job, which cannot be foreseen."""
    return history.outcomes.get(job.job_id) is not Outcome.cancelled


def _next_start_us(history: History, job_id: JobId, at_us: int) -> int | None:
    """Return when a job was given GPUs next after an instant; None: not yet."""
    starts = history.launches.get(job_id, [])
    place = bisect_right(starts, at_us)
    return starts[place] if place < len(starts) else None
