"""When jobs of a log start and end, with how past forecasts of it held, as a document.

It is plain data in and plain data out, so that it can be made in a process of its own. What came of
a past moment does not change any more: who asks again hands it in, and more moments are added.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shunter.app.cost_fitting import Launch, fit_costs, observe_log, slowed_in
from shunter.app.counting import counted
from shunter.app.forking.changes import NOBODY_CALLS, callers_propose
from shunter.app.forking.fork_point import ForkPoint, end_of_instant, fork_point
from shunter.app.forking.measured import measured_parts
from shunter.app.forking.remaining import ENOUGH
from shunter.app.predictions.accuracy import held_at, past_moments
from shunter.app.predictions.forecast import Forecast, Forecasting, Quantiles
from shunter.app.predictions.history import History, read_history
from shunter.app.predictions.messages import Answer, Held, Kept, Question
from shunter.app.replaying.instants import clock
from shunter.app.replaying.lookup import first_start
from shunter.app.replaying.recorded_terms import origin_of
from shunter.app.replaying.waits import job_state
from shunter.app.runs.setup import rebuild
from shunter.app.simulated_world import recorded_parts
from shunter.core.state import Job, State
from shunter.errors import UsageError
from shunter.events.codec import decode_payload
from shunter.events.facts.jobs import JobSubmitted
from shunter.events.log import LogReader, read_log
from shunter.events.values.ids import JobId

MANY_JOBS, FEWER_SAMPLES = 2_000, 9
"""With more jobs than these the samples are fewer, and one past moment is tried with an answer.

9 samples are the fewest with a P50 and a P90 of their own; ours.
"""


async def answer(question: Question) -> Answer:
    """Return what is foreseen.

    Raises:
        UsageError: the log does not say who decides.
        ConfigError: its world cannot be made, or its policy is not installed.
        LogError: the log cannot be read.
    """
    async with read_log(question.address) as reader:
        seq = (await reader.head()).seq
        if not seq:
            raise UsageError("the log is empty: there is nothing to foresee")
        origin = origin_of(await first_start(reader))
        history = await read_history(reader)
        point = await fork_point(reader, seq, rebuild)
        state = point.state()
        forecasting = await _forecasting(reader, point, history, len(state.jobs), question.samples)
        now_us = max(state.now_us, question.now_us)
        submitted = _submitted(question, now_us)
        asked = [] if submitted is not None else _asked(state, question.user)
        told = await forecasting.forecast(point, asked, submitted=submitted, now_us=now_us)

        async def point_at(seq: int) -> ForkPoint:
            return await fork_point(reader, await end_of_instant(reader, seq), rebuild)

        few = min(question.moments, 1 if len(state.jobs) > MANY_JOBS else question.moments)
        held = await _held(forecasting, question.known, few, point_at)
    jobs = [_row(state.jobs[job_id], told, origin) for job_id in asked]
    if submitted is not None:
        jobs.append(_row(submitted, told, origin))
    return Answer(
        {
            "schema_version": 1,
            "evidence": "simulated",
            "seq": seq,
            "now": _dated(now_us, origin),
            "now_us": now_us,
            "policy": point.policy.name,
            "samples": told.samples,
            "jobs": jobs,
            "accuracy": _accuracy(held, len(history.ends)),
            "assumptions": _assumptions(forecasting, point, told),
        },
        held,
    )


async def _forecasting(
    reader: LogReader, point: ForkPoint, history: History, jobs: int, samples: int
) -> Forecasting:
    parts, start_us = recorded_parts(point.started.config), 0
    if not point.started.simulated:
        observed = await observe_log(reader)
        fitted = fit_costs(observed)
        history.slowed = slowed_in(observed, fitted)
        parts, start_us = measured_parts(parts, fitted), fitted.launch_us.get(Launch.start, 0)
    if jobs > MANY_JOBS:
        samples = min(samples, FEWER_SAMPLES)
    return Forecasting(history, parts, start_us, samples)


async def _held(
    forecasting: Forecasting,
    known: tuple[Held, ...],
    more: int,
    point_at: Callable[[int], Awaitable[ForkPoint]],
) -> tuple[Held, ...]:
    """Return how past forecasts held, those known and some more.

    Of those that were open it is found out again, in turns: the ones tried last come last.
    """
    again = [each.seq for each in known if each.is_open][: (more + 1) // 2]
    tried = {each.seq for each in known}
    moments = past_moments(forecasting.history, more + len(tried))
    fresh = [seq for seq in moments if seq not in tried][: more - len(again)]
    kept = [each for each in known if each.seq not in again]
    found = await held_at(forecasting, sorted((*again, *fresh)), point_at, kept)
    return (*kept, *found)


def _submitted(question: Question, now_us: int) -> JobSubmitted | None:
    """Return the job that is only imagined, as one that comes right now."""
    if not question.submitted:
        return None
    event = decode_payload(question.submitted)[0]
    assert isinstance(event, JobSubmitted), "it is of a submission"
    return replace(event, at_us=now_us + 1)


def _asked(state: State, user: str | None) -> list[JobId]:
    jobs = state.jobs.values()
    return [job.job_id for job in jobs if user is None or job.spec.user == user]


def _row(job: Job | JobSubmitted, told: Forecast, origin: str | None) -> dict[str, Any]:
    spec, job_id = job.spec, job.job_id
    return {
        "id": job_id,
        "name": spec.name,
        "user": spec.user,
        "gpus": spec.gpus,
        "state": "imagined" if isinstance(job, JobSubmitted) else job_state(job),
        "start": _band(told.starts.get(job_id), origin),
        "end": _band(told.ends[job_id], origin),
    }


def _band(found: Quantiles | None, origin: str | None) -> dict[str, Any] | None:
    """Return an instant as P50 and P90; None: it has come already."""
    if found is None:
        return None
    p50_us, p90_us = found.p50_us, found.p90_us
    return {
        "p50_us": p50_us,
        "p90_us": p90_us,
        "p50": None if p50_us is None else _dated(p50_us, origin),
        "p90": None if p90_us is None else _dated(p90_us, origin),
    }


def _dated(at_us: int, origin: str | None) -> str:
    """Return an instant as a date, or of a simulation as time since its beginning."""
    if origin is None:
        return clock(at_us)
    when = datetime.fromisoformat(origin) + timedelta(microseconds=at_us)
    return when.isoformat(timespec="milliseconds")


def _accuracy(held: Sequence[Held], ended: int) -> dict[str, Any]:
    starts, ends = [each.starts for each in held], [each.ends for each in held]
    return {"moments": len(held), **_shares(starts), "ends": {"ended": ended, **_shares(ends)}}


def _shares(kept: Sequence[Kept]) -> dict[str, Any]:
    jobs = sum(len(each.jobs) - each.open for each in kept)
    by_p50, by_p90 = sum(each.by_p50 for each in kept), sum(each.by_p90 for each in kept)
    return {
        "jobs": jobs,
        "by_p50": by_p50,
        "by_p90": by_p90,
        "share_by_p90": round(by_p90 / jobs, 4) if jobs else None,
    }


def _assumptions(forecasting: Forecasting, point: ForkPoint, told: Forecast) -> list[str]:
    of_past = (
        f"drawn from those of {counted(told.ended, 'job')} that ended, by user, model and gang size"
        if told.ended >= ENOUGH
        else f"not known before {ENOUGH} jobs have ended ({told.ended} so far): what depends on "
        "them has no P50, and a P90 only where a time limit or the policy bounds it"
    )
    come = (
        "other jobs are submitted as in an earlier period of the log"
        if told.others_come
        else "no other jobs are submitted, as too few have been so far to predict them"
    )
    found = [
        f"run times that no job declared are {of_past}",
        f"{come}; servers stay as they are",
    ]
    if point.policy.oracle:
        found.append("the policy is an oracle: it knows run times that are drawn here")
    if not point.started.simulated:
        found.append("starts and suspensions take what they took on average in this log")
        found += forecasting.parts.unmeasured
        found += forecasting.history.slowed.assumed
    if callers_propose(point.started):
        found.append(NOBODY_CALLS)
    if told.failed:
        found.append(f"the policy failed in {counted(told.failed, 'run')}, which ends there")
    return found
