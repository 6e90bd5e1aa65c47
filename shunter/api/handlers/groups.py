"""Multi-jobs: the view of a search's jobs, and orders to all of them.

An order goes to every member that has not ended, in one step of the scheduler where these come
together; each is durable before the answer. Sent again, it changes nothing more.
"""

from typing import Any

from starlette.responses import Response

from shunter.api.documents.group import group_document
from shunter.api.handlers.jobs import ME, history_in_log
from shunter.api.handlers.queries import GroupsQuery
from shunter.api.models.submission import GroupBody, GroupPriorityBody
from shunter.api.routing import Call, NoBody, NoQuery, json_answer
from shunter.daemon.commands import Stamped
from shunter.events.values import JobId


async def groups(call: Call[GroupsQuery, NoBody]) -> Response:
    """Answer with one group, or with all of a user's that have not ended."""
    query, services = call.query, call.services
    user = _owner(call, query.user)
    state = services.site.state
    await services.durable(state.seq)
    if query.group is None:
        open_ones = [job for job in state.jobs.values() if job.spec.user == user]
        names = list(dict.fromkeys(job.spec.group for job in open_ones if job.spec.group))
    else:
        names = [query.group]
    found = []
    for name in names:
        members = await services.groups.members(user, name)
        histories = [await history_in_log(services, job_id) for job_id in members]
        now_us = max(state.now_us, services.site.now_us())
        found.append(group_document(name, user, histories, state, now_us))
    seq = services.site.committed
    return json_answer({"schema_version": 1, "seq": seq, "now": services.now, "groups": found})


async def cancel(call: Call[NoQuery, GroupBody]) -> Response:
    """End all members of a group that have not ended."""
    members = await _members(call)
    commands = call.services.site.commands
    return await _told(call, members, commands.cancel_group(call.body.group, members, call.caller))


async def priority(call: Call[NoQuery, GroupPriorityBody]) -> Response:
    """Give all members of a group that have not ended a priority."""
    members, body = await _members(call), call.body
    orders = call.services.site.commands.set_group_priority(
        body.group, members, body.priority, call.caller
    )
    return await _told(call, members, orders)


async def _members(
    call: Call[NoQuery, GroupBody] | Call[NoQuery, GroupPriorityBody],
) -> list[JobId]:
    user, site = _owner(call, call.body.user), call.services.site
    await call.services.durable(site.state.seq)  # who was submitted just now is a member too
    return await call.services.groups.members(user, call.body.group)


def _owner(call: Call[Any, Any], said: str | None) -> str:
    return call.caller.user if said is None or said == ME else said


async def _told(
    call: Call[NoQuery, GroupBody] | Call[NoQuery, GroupPriorityBody],
    members: list[JobId],
    orders: list[Stamped],
) -> Response:
    """Hand the orders in, and answer once all are durable."""
    site = call.services.site
    told = [job_id for job_id in members if job_id in site.state.jobs]
    await site.tell_all(orders)
    return json_answer(
        {
            "schema_version": 1,
            "group": call.body.group,
            "user": _owner(call, call.body.user),
            "jobs": told,
            "ended": len(members) - len(told),
            "seq": site.committed,
        }
    )
