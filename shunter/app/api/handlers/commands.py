"""What people want done: submit, cancel, suspend, resume, priority, drain, restore, and so on.

Each is answered once it is in the log, durable, and its effects are on their way.
"""

from dataclasses import replace

from starlette.responses import Response

from shunter.app.api.models.submission import PriorityBody, SubmitBody
from shunter.app.api.routing import Call, NoBody, NoQuery, json_answer
from shunter.app.api.submissions import array_of, dry_run, submission_of
from shunter.app.live.requests import Submission
from shunter.errors import UsageError
from shunter.events.values.ids import JobId, NodeName

__all__ = [
    "cancel",
    "discard_checkpoint",
    "drain",
    "priority",
    "restore",
    "resume",
    "set_aside",
    "submit",
    "suspend",
]

KEY_MOST = 200
TOGETHER = 100
"""Tasks of an array that are told to the scheduler in one go; a step takes them together."""


async def submit(call: Call[NoQuery, SubmitBody]) -> Response:
    """Submit a job or each task of an array; once, however often a key is sent."""
    services, body, by = call.services, call.body, call.caller
    key = call.header("idempotency-key")
    if len(key) > KEY_MOST or not key.isprintable():
        raise UsageError(f"Idempotency-Key: expected {KEY_MOST} printable characters at most")
    request = submission_of(body, key)
    if body.dry_run:
        return json_answer(dry_run(services.site, request, by))
    if body.array is None:
        return _submitted(call, [await services.site.submit(request, by)])
    ids = await _submit_tasks(call, array_of(request, body.array), body.array.at_once)
    return _submitted(call, ids)


async def cancel(call: Call[NoQuery, NoBody]) -> Response:
    """End a job, or keep it from starting."""
    job_id = JobId(call.path["job_id"])
    await call.services.site.cancel(job_id, call.caller)
    return _told(call, job_id)


async def suspend(call: Call[NoQuery, NoBody]) -> Response:
    """Take a job off its GPUs once it has saved, and hold it until it is resumed."""
    job_id = JobId(call.path["job_id"])
    await call.services.site.suspend(job_id, call.caller)
    return _told(call, job_id)


async def resume(call: Call[NoQuery, NoBody]) -> Response:
    """Let a held job start again."""
    job_id = JobId(call.path["job_id"])
    await call.services.site.resume(job_id, call.caller)
    return _told(call, job_id)


async def discard_checkpoint(call: Call[NoQuery, NoBody]) -> Response:
    """Let a job go on without what it saved on servers that do not answer."""
    job_id = JobId(call.path["job_id"])
    await call.services.site.discard_checkpoint(job_id, call.caller)
    return _told(call, job_id)


async def set_aside(call: Call[NoQuery, NoBody]) -> Response:
    """End a job's attempt, whatever its records say, and hold the job."""
    job_id = JobId(call.path["job_id"])
    await call.services.site.set_aside(job_id, call.caller)
    return _told(call, job_id)


async def priority(call: Call[NoQuery, PriorityBody]) -> Response:
    """Give a job another priority."""
    job_id = JobId(call.path["job_id"])
    await call.services.site.set_priority(job_id, call.body.priority, call.caller)
    return _told(call, job_id)


async def drain(call: Call[NoQuery, NoBody]) -> Response:
    """Start nothing new on a server."""
    node = NodeName(call.path["node"])
    await call.services.site.drain(node, call.caller)
    return _told(call, node)


async def restore(call: Call[NoQuery, NoBody]) -> Response:
    """Put a drained server back to work."""
    node = NodeName(call.path["node"])
    await call.services.site.restore(node, call.caller)
    return _told(call, node)


def _submitted(call: Call[NoQuery, SubmitBody], ids: list[JobId]) -> Response:
    document = {"schema_version": 1, "id": ids[0], "ids": ids, "seq": call.services.site.committed}
    return json_answer({**document, "is_dry_run": False, "would": ""}, 201)


def _told(call: Call[NoQuery, NoBody] | Call[NoQuery, PriorityBody], subject: str) -> Response:
    seq = call.services.site.committed
    return json_answer({"schema_version": 1, "subject": subject, "seq": seq})


async def _submit_tasks(
    call: Call[NoQuery, SubmitBody], tasks: list[Submission], at_once: int | None
) -> list[JobId]:
    """Submit an array.

    The first goes ahead alone: if it is refused, all would be, and one record of that is enough;
    and the others are named after it.
    """
    site, by = call.services.site, call.caller
    ids = [await site.submit(replace(tasks[0], at_once=at_once), by)]
    for first in range(1, len(tasks), TOGETHER):
        part = [
            replace(task, array=ids[0], at_once=at_once) for task in tasks[first : first + TOGETHER]
        ]
        ids += await site.submit_together(part, by)
    return ids
