"""What people want done: submit, cancel, suspend, resume, priority, drain, restore, and so on.

Each is answered once it is in the log, durable, and its effects are on their way.
"""

from collections.abc import Callable
from dataclasses import replace

from starlette.responses import Response

from shunter.api.handlers.jobs import unmet
from shunter.api.models.submission import JobsBody, PriorityBody, ResizeBody, SubmitBody
from shunter.api.problems import problem_of
from shunter.api.routing import Call, NoBody, NoQuery, json_answer
from shunter.api.services import Services
from shunter.api.submissions import (
    after_whole_arrays,
    array_of,
    dry_run,
    has_gpus,
    submission_of,
)
from shunter.daemon.commands import Commands, Stamped
from shunter.daemon.requests import Caller, Submission
from shunter.errors import NotFoundError, ShunterError, UsageError
from shunter.events.values import JobId, NodeName

KEY_MOST = 200
TOGETHER = 100
GPU_DIGITS_MOST = 6
"""Tasks of an array that are told to the scheduler in one go; a step takes them together."""


async def submit(call: Call[NoQuery, SubmitBody]) -> Response:
    """Submit a job or each task of an array; once, however often a key is sent."""
    services, body, by = call.services, call.body, call.caller
    key = call.header("idempotency-key")
    if len(key) > KEY_MOST or not key.isprintable():
        raise UsageError(f"Idempotency-Key: expected {KEY_MOST} printable characters at most")
    tasks = 1 if body.array is None else len(body.array.indices)
    said = submission_of(body, key, has_gpus=has_gpus(services.site.state.cluster))
    request = await after_whole_arrays(services, said, tasks)
    note = await _never_met(services, request)
    if body.dry_run:
        async with services.dry_runs.turn(by.user):
            return json_answer(await dry_run(services.site, request, by, note))
    if body.array is None:
        return _submitted(call, [await services.site.submit(request, by)], note)
    return _submitted(call, await _submit_tasks(call, array_of(request, body.array)), note)


async def cancel(call: Call[NoQuery, NoBody]) -> Response:
    """End a job, or keep it from starting."""
    return await _about_job(call, Commands.cancel)


async def cancel_jobs(call: Call[NoQuery, JobsBody]) -> Response:
    """End jobs in one step, so that none of them gets the GPUs of another."""
    return await _about_jobs(call, Commands.cancel)


async def suspend_jobs(call: Call[NoQuery, JobsBody]) -> Response:
    """Suspend jobs in one step, so that none of them gets the GPUs of another."""
    return await _about_jobs(call, Commands.suspend)


async def suspend(call: Call[NoQuery, NoBody]) -> Response:
    """Take a job off its GPUs once it has saved, and hold it until it is resumed."""
    return await _about_job(call, Commands.suspend)


async def resume(call: Call[NoQuery, NoBody]) -> Response:
    """Let a held job start again."""
    return await _about_job(call, Commands.resume)


async def discard_checkpoint(call: Call[NoQuery, NoBody]) -> Response:
    """Let a job go on without what it saved on servers that do not answer."""
    return await _about_job(call, Commands.discard_checkpoint)


async def set_aside(call: Call[NoQuery, NoBody]) -> Response:
    """End a job's attempt, whatever its records say, and hold the job."""
    return await _about_job(call, Commands.set_aside)


async def priority(call: Call[NoQuery, PriorityBody]) -> Response:
    """Give a job another priority."""
    job_id, by = JobId(call.path["job_id"]), call.caller
    commands = call.services.site.commands
    return await _told(call, job_id, commands.set_priority(job_id, call.body.priority, by))


async def resize(call: Call[NoQuery, ResizeBody]) -> Response:
    """Give an elastic job another number of GPUs; if it runs, it goes on with them."""
    job_id, by = JobId(call.path["job_id"]), call.caller
    commands = call.services.site.commands
    return await _told(call, job_id, commands.resize(job_id, call.body.gpus, by))


async def drain(call: Call[NoQuery, NoBody]) -> Response:
    """Start nothing new on a server."""
    return await _about_node(call, Commands.drain)


async def restore(call: Call[NoQuery, NoBody]) -> Response:
    """Put a drained server back to work."""
    return await _about_node(call, Commands.restore)


async def quarantine(call: Call[NoQuery, NoBody]) -> Response:
    """Start nothing new on one GPU of a server."""
    return await _about_gpu(call, Commands.quarantine)


async def release_gpu(call: Call[NoQuery, NoBody]) -> Response:
    """Put a quarantined GPU back to work."""
    return await _about_gpu(call, Commands.release)


def _submitted(call: Call[NoQuery, SubmitBody], ids: list[JobId], note: str) -> Response:
    document = {"schema_version": 1, "id": ids[0], "ids": ids, "seq": call.services.site.committed}
    made = {"is_dry_run": False, "would": "", "note": note, "plan": None}
    return json_answer({**document, **made}, 201)


async def _never_met(services: Services, request: Submission) -> str:
    """Return why a job that is cancelled at once can never start; or nothing."""
    job_id, said = await unmet(services, request.spec)
    if not said:
        return ""
    return (
        f"it cannot start, and is cancelled at once: {said}; `--after {job_id}:any` takes any end"
    )


async def _about_job(
    call: Call[NoQuery, NoBody], order: Callable[[Commands, JobId, Caller], Stamped]
) -> Response:
    job_id = JobId(call.path["job_id"])
    return await _told(call, job_id, order(call.services.site.commands, job_id, call.caller))


async def _about_jobs(
    call: Call[NoQuery, JobsBody], order: Callable[[Commands, JobId, Caller], Stamped]
) -> Response:
    """Hand in an order for each job that may get it; say why others may not."""
    site, told, orders = call.services.site, list[str](), list[Stamped]()
    refused: list[dict[str, object]] = []
    for job_id in call.body.jobs:
        try:
            orders.append(order(site.commands, JobId(job_id), call.caller))
        except ShunterError as error:
            refused.append({"job": job_id, "problem": problem_of(error)})
        else:
            told.append(job_id)
    await site.tell_all(orders)
    return json_answer(
        {"schema_version": 1, "jobs": told, "refused": refused, "seq": site.committed}
    )


async def _about_node(
    call: Call[NoQuery, NoBody], order: Callable[[Commands, NodeName, Caller], Stamped]
) -> Response:
    node = NodeName(call.path["node"])
    return await _told(call, node, order(call.services.site.commands, node, call.caller))


async def _about_gpu(
    call: Call[NoQuery, NoBody], order: Callable[[Commands, NodeName, int, Caller], Stamped]
) -> Response:
    node, gpu = NodeName(call.path["node"]), call.path["gpu"]
    if not (gpu.isascii() and gpu.isdecimal()) or len(gpu) > GPU_DIGITS_MOST:
        raise NotFoundError(f"GPU {gpu!r} of node {node}: expected a number, such as 0")
    stamped = order(call.services.site.commands, node, int(gpu), call.caller)
    return await _told(call, f"{node}[{gpu}]", stamped)


async def _told(
    call: Call[NoQuery, NoBody] | Call[NoQuery, PriorityBody] | Call[NoQuery, ResizeBody],
    subject: str,
    stamped: Stamped,
) -> Response:
    """Hand an order in, and answer once it is durable."""
    site = call.services.site
    await site.tell(stamped)
    return json_answer({"schema_version": 1, "subject": subject, "seq": site.committed})


async def _submit_tasks(call: Call[NoQuery, SubmitBody], tasks: list[Submission]) -> list[JobId]:
    """Submit an array.

    The first goes ahead alone: if it is refused, all would be; and the others are named after it.
    """
    site, by = call.services.site, call.caller
    ids = [await site.submit(tasks[0], by)]
    for first in range(1, len(tasks), TOGETHER):
        part = [
            replace(task, spec=replace(task.spec, array=ids[0]))
            for task in tasks[first : first + TOGETHER]
        ]
        ids += await site.submit_together(part, by)
    return ids
