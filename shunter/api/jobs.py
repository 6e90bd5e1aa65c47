"""Reading jobs: the queue, history, one job, why it is where it is; and multi-jobs."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
from starlette.responses import Response

from shunter.api.answer_models import (
    GroupsDocument,
    GroupToldDocument,
    HistoryDocument,
    JobDocument,
    QueueDocument,
)
from shunter.api.job_rows import Evidence, Present, TurnShares, dated_why, job_row, queue_document
from shunter.api.request_models import (
    AtQuery,
    GroupBody,
    GroupPriorityBody,
    GroupsQuery,
    HistoryQuery,
    JobQuery,
    QueueQuery,
)
from shunter.api.routing import JOB, V1, Call, NoBody, NoQuery, json_answer, route
from shunter.api.services import Services
from shunter.ask import (
    JOB_STATES,
    JobHistory,
    allocation_in_words,
    date_or_none,
    job_state,
    place_of,
    read_histories,
)
from shunter.config import DEFAULT_QUEUE
from shunter.core import Job, State
from shunter.daemon import Stamped, no_such_job
from shunter.errors import NotFoundError, UsageError
from shunter.events import (
    DEPENDENCY,
    DependsWhen,
    Event,
    JobId,
    JobSpec,
    Outcome,
    Reason,
    to_object,
)
from shunter.events.log import LogReader

ME = "me"
SILENT_NAMED = 2
_OF_SILENT_SERVERS = (Reason.node_lost, Reason.checkpoint_unreachable)
READ_TOGETHER = 50
"""Jobs of an earlier daemon that are read from the log at a time."""


@route("GET", V1 + "/jobs", "The jobs that have not ended", QueueDocument, query=QueueQuery)
async def jobs_queue(call: Call[QueueQuery, NoBody]) -> Response:
    """Answer with the jobs that have not ended."""
    query, services = call.query, call.services
    ranks = {job_id: rank for rank, job_id in enumerate(await services.site.waiting_order(), 1)}
    state = services.site.state
    user = call.caller.user if query.user == ME else query.user
    _check_filters(query, state)
    if query.group is not None:
        await services.groups.members(user or call.caller.user, query.group)  # it exists

    def wanted(one: Job) -> bool:
        return (
            (query.queue is None or one.spec.queue == query.queue)
            and (query.group is None or one.spec.group == query.group)
            and (query.state is None or job_state(one) == query.state)
        )

    found = [one for one in state.jobs.values() if wanted(one)]
    jobs = [one for one in found if user is None or one.spec.user == user]
    document = queue_document(
        state,
        jobs,
        services.dated,
        now=services.now,
        ranks=ranks,
        present=_present(services),
        limit=query.limit,
        of_others=len(found) - len(jobs),
    )
    await services.durable(document["seq"])
    return json_answer(document)


def _check_filters(query: QueueQuery, state: State) -> None:
    """Raise if no job can be in a state or queue that is asked for."""
    if query.state is not None and query.state not in JOB_STATES:
        raise UsageError(f"no such state: {query.state!r}: expected {', '.join(JOB_STATES)}")
    queues = sorted({*state.queues, DEFAULT_QUEUE})
    if query.queue is not None and query.queue not in queues:
        raise NotFoundError(f"there is no queue {query.queue!r}: expected {', '.join(queues)}")


@route("GET", V1 + "/history", "Jobs that have ended", HistoryDocument, query=HistoryQuery)
async def jobs_history(call: Call[HistoryQuery, NoBody]) -> Response:
    """Answer with jobs that have ended, the last one first."""
    query, services = call.query, call.services
    state = services.site.state
    user = call.caller.user if query.user == ME else query.user
    await services.durable(state.seq)
    total, before = sum(state.outcomes.values()), state.seq + 1
    rows: list[dict[str, object]] = []
    while ended := services.site.past.ended_before(before, READ_TOGETHER):
        before = ended[-1].seq
        histories = await _ended_histories(services, [each.job_id for each in ended])
        rows += [
            history.row(services.dated)
            for history in histories
            if user in (None, history.submitted.spec.user)
        ]
        if len(rows) >= query.limit:
            break
    del rows[query.limit :]
    return json_answer(
        {
            "schema_version": 1,
            "seq": services.site.committed,
            "now": services.now,
            "total": total,
            "jobs": rows,
        }
    )


@route("GET", JOB, "One job with its attempts", JobDocument, query=JobQuery)
async def jobs_job(call: Call[JobQuery, NoBody]) -> Response:
    """Answer with one job, once it has ended if that is asked for."""
    job_id, services = JobId(call.path["job_id"]), call.services
    known(services, job_id)
    with anyio.move_on_after(call.query.wait_s):
        seq = services.stream.last_seq
        while job_id in services.site.state.jobs and await services.stream.came(seq):
            seq = services.stream.last_seq
    evidence = await _evidence(services) if job_id in services.site.state.jobs else None
    await services.durable(services.site.state.seq)  # its end may be on its way to the disk
    history = await history_in_log(services, job_id)
    document = _job_document(services, job_id, history, evidence)
    if history.cause == DEPENDENCY:
        _, document["cause_detail"] = await unmet(services, history.submitted.spec)
    return json_answer(document)


def _present(services: Services) -> Present:
    site = services.site
    return Present(site.now_us(), site.launch_wait, site.unheld)


async def _evidence(services: Services) -> Evidence:
    """Return what rows of the present state share."""
    ranks = {job_id: rank for rank, job_id in enumerate(await services.site.waiting_order(), 1)}
    return Evidence(services.site.state, ranks, services.site.unheld)


@route("GET", JOB + "/why", "Why it is where it is", query=AtQuery)
async def jobs_why(call: Call[AtQuery, NoBody]) -> Response:
    """Answer with why a job is where it is, now or at a past point."""
    # A start does without what explains, and without what builds other policies.
    from shunter.ask.why import document as why_document, explain
    from shunter.run import rebuild_our_own

    job_id, services = JobId(call.path["job_id"]), call.services
    known(services, job_id)
    origin = services.site.origin
    unheld = services.site.unheld if call.query.at is None else None

    async def read(reader: LogReader) -> dict[str, Any]:
        now_us = services.site.now_us()
        seq, at_us = await place_of(reader, call.query.at, origin.isoformat(), now_us)
        found = await explain(reader, job_id, seq, at_us, rebuild_our_own)
        found.unheld = found.unheld if unheld is None else unheld
        return why_document(found)

    document = await services.past.read(read)
    del document["log"]
    job = services.site.state.jobs.get(job_id)
    is_now = call.query.at is None and job is not None and job.is_eligible
    silent = services.site.silent_servers if is_now else {}
    document["silent_servers"] = [
        {"node": node, "cause": silent[node], "is_held": node not in (unheld or ())}
        for node in sorted(silent)
    ]
    document["launch_wait"] = services.site.launch_wait(job_id) if call.query.at is None else ""
    _say_what_only_the_daemon_knows(document)
    return json_answer({"schema_version": 1, **dated_why(document, services.dated)})


def _say_what_only_the_daemon_knows(document: dict[str, Any]) -> None:
    """Add silent servers and what a launch waits for to the short answer."""
    short, silent, launch = (document[each] for each in ("short", "silent_servers", "launch_wait"))
    if launch and short is None:  # it has GPUs, and somebody has yet to give them
        to_do = f"wait, or take it back: `shunter cancel {document['job']['id']}`"
        document["short"] = {
            "answer": document["headline"],
            "waits_for": launch,
            "to_do": to_do,
        }
    elif short is not None and silent and document["reason"]["name"] in _OF_SILENT_SERVERS:
        said = "; ".join(each["cause"] for each in silent[:SILENT_NAMED])
        short["waits_for"] += f" ({said})"


def known(services: Services, job_id: JobId) -> None:
    """Raise NotFoundError unless there is such a job, or was."""
    if not services.site.knows(job_id):
        raise NotFoundError(no_such_job(job_id, services.site.knows))


async def unmet(services: Services, spec: JobSpec) -> tuple[str, str]:
    """Return which job ended otherwise than a job needs, and that in words."""
    for each in spec.depends_on:
        outcome = services.site.past.outcome(each.job_id)
        if each.when is DependsWhen.any or outcome in (None, Outcome.finished):
            continue
        code = (await history_in_log(services, each.job_id)).exit_code
        how = f"{outcome}" if code is None else f"{outcome} (exit {code})"
        return each.job_id, f"it needs job {each.job_id} to end well, which ended as {how}"
    return "", ""


async def history_in_log(services: Services, job_id: JobId) -> JobHistory:
    """Return the history of a job as far as it is durable.

    One that an earlier daemon began is read once; from then on it is followed like all others.

    Raises:
        NotFoundError: the log does not know it yet.
    """
    stream = services.stream
    history = stream.histories.of(job_id)
    if history is not None:
        return history
    upto = stream.last_seq
    history = (await _read_histories(services, [job_id], upto)).get(job_id)
    if history is None:
        history = (await _read_histories(services, [job_id])).get(job_id)
        if history is None:
            raise NotFoundError(f"job {job_id} is not in the log yet; ask again")
        return history
    now = stream.last_seq
    async for _, event in _between(services, upto, now):
        if getattr(event, "job_id", None) == job_id:
            if history.is_unclear(event):
                return await history_in_log(services, job_id)
            history.take(event)
    if stream.last_seq == now:  # nothing was missed: what came meanwhile was in memory
        stream.histories.adopt(job_id, history)
    return history


async def _read_histories(
    services: Services, job_ids: Sequence[JobId], upto: int | None = None
) -> dict[JobId, JobHistory]:
    """Return the histories that the log has of jobs, up to an event or to its end."""
    return await services.past.read(lambda reader: read_histories(reader, job_ids, upto))


async def _between(services: Services, after: int, upto: int) -> AsyncIterator[tuple[int, Event]]:
    """Yield the durable events from one number to another."""
    if after < upto:
        async for seq, event in services.site.follow(after):
            yield seq, event
            if seq >= upto:
                return


async def _ended_histories(services: Services, ids: list[JobId]) -> list[JobHistory]:
    """Return the histories of jobs that have ended; unknown ones are read in one go."""
    histories = services.stream.histories
    unknown = [job_id for job_id in ids if histories.of(job_id) is None]

    for job_id, history in (await _read_histories(services, unknown) if unknown else {}).items():
        if history.outcome is not None:
            histories.keep(job_id, history)
    known = [histories.of(job_id) for job_id in ids]
    return [history for history in known if history is not None and history.outcome is not None]


def _job_document(
    services: Services, job_id: JobId, history: JobHistory, evidence: Evidence | None
) -> dict[str, object]:
    state, dated = services.site.state, services.dated
    live = None if history.outcome is not None else state.jobs.get(job_id)
    submitted = to_object(history.submitted)
    attempts = history.attempts if live is None else history.upto(live.attempt)
    standing = "" if history.outcome is None else history.outcome.value
    service_us = None if history.outcome is None else history.service_gpu_us
    return {
        "schema_version": 1,
        "seq": services.site.committed,
        "now": services.now,
        "id": job_id,
        "state": job_state(live) if live is not None else standing or "ending",
        "is_over": history.outcome is not None,
        "cause": history.cause,
        "cause_detail": "",
        "exit_code": history.exit_code,
        **({"killed_by": history.killed_by} if history.killed_by else {}),
        "row": None
        if live is None
        else job_row(live, state, dated, evidence=evidence, present=_present(services)),
        "spec": submitted["spec"],
        "environment": dict(history.submitted.environment),
        "submitted_at": dated(history.submitted.at_us),
        "started_at": None if history.started_us is None else dated(history.started_us),
        "ended_at": None if history.ended_us is None else dated(history.ended_us),
        "service_gpu_s": None if service_us is None else service_us / 1e6,
        "next_try_at": None if live is None else date_or_none(live.back_at_us, dated),
        "attempts": [attempt.document(dated) for attempt in attempts],
        **({"warnings": history.warned(dated)} if history.warnings else {}),
        "profile": None if history.sample is None else to_object(history.sample),
        "profile_at": None if history.sample is None else dated(history.sample.at_us),
    }


# An order to a group goes to every member that has not ended, and is durable before the answer.
# Sent again, it changes nothing more.


@route("GET", V1 + "/groups", "Multi-jobs with their members", GroupsDocument, query=GroupsQuery)
async def groups_groups(call: Call[GroupsQuery, NoBody]) -> Response:
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


@route("POST", V1 + "/groups/cancel", "End all of a group", GroupToldDocument, body=GroupBody)
async def groups_cancel(call: Call[NoQuery, GroupBody]) -> Response:
    """End all members of a group that have not ended."""
    members = await _durable_members(call)
    commands = call.services.site.commands
    return await _group_ordered(
        call, members, commands.cancel_group(call.body.group, members, call.caller)
    )


@route(
    "POST",
    V1 + "/groups/priority",
    "Change the priority of all of a group",
    GroupToldDocument,
    body=GroupPriorityBody,
)
async def groups_priority(call: Call[NoQuery, GroupPriorityBody]) -> Response:
    """Give all members of a group that have not ended a priority."""
    members, body = await _durable_members(call), call.body
    orders = call.services.site.commands.set_group_priority(
        body.group, members, body.priority, call.caller
    )
    return await _group_ordered(call, members, orders)


async def _durable_members(
    call: Call[NoQuery, GroupBody] | Call[NoQuery, GroupPriorityBody],
) -> list[JobId]:
    user, site = _owner(call, call.body.user), call.services.site
    await call.services.durable(site.state.seq)  # who was submitted just now is a member too
    return await call.services.groups.members(user, call.body.group)


def _owner(call: Call[Any, Any], said: str | None) -> str:
    return call.caller.user if said is None or said == ME else said


async def _group_ordered(
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


def group_document(
    group: str, user: str, histories: Sequence[JobHistory], state: State, now_us: int
) -> dict[str, Any]:
    """Return a group with its members.

    Args:
        group: its name.
        user: whose it is.
        histories: those of its members, by submission.
        state: what is true.
        now_us: the instant up to which service counts.
    """
    turns = TurnShares(state, now_us)
    members = [_member(history, state, now_us, turns) for history in histories]
    total_gpu_s = sum([member["service_gpu_s"] for member in members])
    for member in members:
        member["share"] = member["service_gpu_s"] / total_gpu_s if total_gpu_s else 0.0
    return {
        "group": group,
        "user": user,
        "total": len(members),
        "states": dict(sorted(Counter(member["state"] for member in members).items())),
        "service_gpu_s": total_gpu_s,
        "members": members,
    }


def _member(history: JobHistory, state: State, now_us: int, turns: TurnShares) -> dict[str, Any]:
    spec, job_id = history.submitted.spec, history.submitted.job_id
    job = None if history.outcome is not None else state.jobs.get(job_id)
    ended = "ending" if history.outcome is None else history.outcome.value
    service_us = history.service_gpu_us or 0 if job is None else job.service_us(now_us)
    sample = history.sample
    told = [None if sample is None else sample.step, *[one.step for one in history.attempts]]
    return {
        "id": job_id,
        "name": spec.name,
        "state": ended if job is None else job_state(job),
        "is_over": history.outcome is not None,
        "priority": history.priority if job is None else job.priority,
        "gpus": spec.gpus,
        "where": "" if job is None or not job.held.shares else allocation_in_words(job.held),
        "service_gpu_s": service_us / 1e6,
        "turns": None if job is None else turns.of(job),
        "step": max((step for step in told if step is not None), default=None),
        "total_steps": spec.total_steps,
        "batch_s": None if sample is None else sample.batch_s,
    }
