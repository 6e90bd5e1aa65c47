"""What is simulated for callers: when jobs start and end, and what would make one start.

It takes seconds, and ends with who asked: nobody else waits for an answer that is not wanted.
"""

from collections.abc import Awaitable
from typing import TypeVar

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from shunter.api.documents.dates import with_dates
from shunter.api.handlers.jobs import ME, known
from shunter.api.handlers.queries import AtQuery, ForecastQuery
from shunter.api.models.model import SCHEMA_VERSION
from shunter.api.models.submission import SubmitBody
from shunter.api.routing import Call, NoBody, NoQuery, json_answer
from shunter.api.submissions import after_whole_arrays, has_gpus, submission_of
from shunter.ask.forks.forecast_process import StartsIf
from shunter.ask.log_reading import place_of
from shunter.errors import ShunterError, UsageError
from shunter.events.log import LogReader
from shunter.events.values import JobId

AnswerT = TypeVar("AnswerT")

LOOK_S = 0.5
"""How often it is looked whether who asked is still there."""


async def of_queue(call: Call[ForecastQuery, NoBody]) -> Response:
    """Answer with when jobs start and end; of others' jobs for admins only."""
    by = call.caller
    user = by.user if call.query.user == ME else call.query.user
    made = call.services.forecasts.of_queue(by, user)
    return json_answer(await _while_there(call.request, made))


async def of_submission(call: Call[NoQuery, SubmitBody]) -> Response:
    """Answer with when a job would start and end; of an array, its first task."""
    site, by = call.services.site, call.caller
    said = submission_of(call.body, "", has_gpus=has_gpus(site.state.cluster))
    request = await after_whole_arrays(call.services, said)
    submitted = site.imagined(request, by)
    made = call.services.forecasts.of_submission(by, submitted)
    return json_answer(await _while_there(call.request, made))


async def of_changes(call: Call[AtQuery, NoBody]) -> Response:
    """Answer with what would make a job start, now or at a past point.

    Raises:
        UsageError: it has ended, and a past point is asked about.
    """
    job_id, services, site = JobId(call.path["job_id"]), call.services, call.services.site
    known(services, job_id)
    job = site.state.jobs.get(job_id)
    if job is None and call.query.at is None:
        return json_answer({"schema_version": SCHEMA_VERSION, "counterfactuals": None})
    if job is None:
        raise UsageError(
            f"{job_id} has ended: what would have made it start is asked of the log, with "
            f"`shunter why {job_id} --log LOG --counterfactuals`"
        )
    await services.durable(site.state.seq)

    async def read(reader: LogReader) -> tuple[int, int]:
        return await place_of(reader, call.query.at, site.origin.isoformat(), site.now_us())

    seq, at_us = await services.past.read(read)
    asked = StartsIf(site.config.log.url, job_id, seq, at_us)
    made = services.forecasts.of_changes(call.caller, asked, job.spec.user)
    found = await _while_there(call.request, made)
    document = {"schema_version": SCHEMA_VERSION, "counterfactuals": found}
    return json_answer(with_dates(document, services.dated))


async def _while_there(request: Request, made: Awaitable[AnswerT]) -> AnswerT:
    """Return an answer, for which who asked waits.

    Raises:
        ClientDisconnect: he has gone, and it is not made any more.
        ShunterError: there is no answer.
    """
    found: list[AnswerT] = []
    problem: ShunterError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_until_gone, request, tasks.cancel_scope)
        try:
            found.append(await made)
        except ShunterError as error:  # raised in here, it would come out as one of a group
            problem = error
        tasks.cancel_scope.cancel()
    if problem is not None:
        raise problem
    if not found:
        raise ClientDisconnect
    return found[0]


async def _until_gone(request: Request, scope: anyio.CancelScope) -> None:
    while not await request.is_disconnected():  # noqa: ASYNC110  no event tells
        await anyio.sleep(LOOK_S)
    scope.cancel()
