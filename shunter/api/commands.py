"""What people want done: submissions and orders, forecasts, proposals.

Each order is answered once it is durable in the log and its effects are on their way.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from shunter import clock
from shunter.api.answer_models import (
    ForecastDocument,
    JobsToldDocument,
    ProposalDocument,
    StartsIfDocument,
    SubmittedDocument,
    ToldDocument,
    ViewDocument,
)
from shunter.api.job_rows import BLOCKERS_MOST, told_of_servers, with_dates
from shunter.api.jobs import ME, known, unmet
from shunter.api.problems import problem_of
from shunter.api.request_models import (
    SCHEMA_VERSION,
    ArrayBody,
    AtQuery,
    ForecastQuery,
    JobsBody,
    Model,
    PriorityBody,
    ProposalBody,
    ResizeBody,
    SubmitBody,
)
from shunter.api.routing import GPU, JOB, NODE, V1, Call, NoBody, NoQuery, Route, json_answer, route
from shunter.api.services import Services
from shunter.ask import holding_back, place_of
from shunter.ask.forks import StartsIf
from shunter.core import WAITING, Cluster, Health
from shunter.core.planning import Refused, looked_at
from shunter.counting import counted, jobs_waiting
from shunter.daemon import Caller, Commands, Site, Stamped, Submission
from shunter.errors import NotFoundError, PlanError, ShunterError, UsageError
from shunter.events import (
    CALLER,
    Allocation,
    Dependency,
    DependsWhen,
    Event,
    JobId,
    JobSpec,
    NodeName,
    Reason,
    facts,
)
from shunter.events.log import LogReader
from shunter.policy_process import DryRan

KEY_MOST = 200
SUBMITTED_TOGETHER = 100
"""Tasks of an array that are told to the scheduler in one go; a step takes them together."""

GPU_DIGITS_MOST = 6


@route(
    "POST",
    V1 + "/jobs",
    "Submit a job or an array",
    SubmittedDocument,
    body=SubmitBody,
    headers=(("Idempotency-Key", "submits once, however often it is sent"),),
)
async def commands_submit(call: Call[NoQuery, SubmitBody]) -> Response:
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


# Orders, each a route.

About = tuple[str, tuple[Any, ...]]
"""What an order is about: its name, and the arguments of the command but for who gives it."""


def of_job(call: Call[Any, Any]) -> About:
    """Return the job in the path."""
    job_id = JobId(call.path["job_id"])
    return job_id, (job_id,)


def of_node(call: Call[Any, Any]) -> About:
    """Return the server in the path."""
    node = NodeName(call.path["node"])
    return node, (node,)


def of_gpu(call: Call[Any, Any]) -> About:
    """Return the GPU in the path."""
    node, gpu = NodeName(call.path["node"]), call.path["gpu"]
    if not (gpu.isascii() and gpu.isdecimal()) or len(gpu) > GPU_DIGITS_MOST:
        raise NotFoundError(f"GPU {gpu!r} of node {node}: expected a number, such as 0")
    return f"{node}[{gpu}]", (node, int(gpu))


def order(
    name: str,
    path: str,
    summary: str,
    description: str,
    command: Callable[..., Stamped],
    about: Callable[[Call[Any, Any]], About] = of_job,
    body: type[Model] = NoBody,
) -> Route:
    """Return the route of an order, which answers once that is durable.

    Args:
        name: of its operation.
        path: where it is given.
        summary: in few words.
        description: what it does.
        command: what makes it.
        about: what it is about.
        body: its fields are further arguments of the command.
    """

    async def handler(call: Call[Any, Any]) -> Response:
        site = call.services.site
        subject, arguments = about(call)
        said = (getattr(call.body, field) for field in body.model_fields)
        await site.tell(command(site.commands, *arguments, *said, call.caller))
        return json_answer({"schema_version": 1, "subject": subject, "seq": site.committed})

    return _named(name, description, Route("POST", path, handler, summary, ToldDocument, body=body))


def order_of_jobs(
    name: str, path: str, summary: str, description: str, command: Callable[..., Stamped]
) -> Route:
    """Return the route of an order to all jobs that may get it.

    It answers why others may not.
    """

    async def handler(call: Call[NoQuery, JobsBody]) -> Response:
        site, told, orders = call.services.site, list[str](), list[Stamped]()
        refused: list[dict[str, object]] = []
        for job_id in call.body.jobs:
            try:
                orders.append(command(site.commands, JobId(job_id), call.caller))
            except ShunterError as error:
                refused.append({"job": job_id, "problem": problem_of(error)})
            else:
                told.append(job_id)
        await site.tell_all(orders)
        return json_answer(
            {"schema_version": 1, "jobs": told, "refused": refused, "seq": site.committed}
        )

    made = Route("POST", path, handler, summary, JobsToldDocument, body=JobsBody)
    return _named(name, description, made)


def _named(name: str, description: str, made: Route) -> Route:
    handler: Any = made.handler
    handler.__name__, handler.__doc__ = f"commands_{name}", description
    return made


cancel = order(
    *("cancel", JOB + "/cancel", "End it"),
    "End a job, or keep it from starting.",
    Commands.cancel,
)
suspend = order(
    *("suspend", JOB + "/suspend", "Save it, and hold it"),
    "Take a job off its GPUs once it has saved, and hold it until it is resumed.",
    Commands.suspend,
)
cancel_jobs = order_of_jobs(
    *("cancel_jobs", V1 + "/jobs/cancel", "End some in one step"),
    "End jobs in one step, so that none of them gets the GPUs of another.",
    Commands.cancel,
)
suspend_jobs = order_of_jobs(
    *("suspend_jobs", V1 + "/jobs/suspend", "Suspend some in one step"),
    "Suspend jobs in one step, so that none of them gets the GPUs of another.",
    Commands.suspend,
)
resume = order(
    *("resume", JOB + "/resume", "Let it start again"),
    "Let a held job start again.",
    Commands.resume,
)
discard_checkpoint = order(
    *(
        "discard_checkpoint",
        JOB + "/discard-checkpoint",
        "Give up what it saved on servers that do not answer",
    ),
    "Let a job go on without what it saved on servers that do not answer.",
    Commands.discard_checkpoint,
)
set_aside = order(
    *("set_aside", JOB + "/set-aside", "End its attempt, whatever that tells, and hold it"),
    "End a job's attempt, whatever its records say, and hold the job.",
    Commands.set_aside,
)
priority = order(
    *("priority", JOB + "/priority", "Change its priority"),
    "Give a job another priority.",
    Commands.set_priority,
    body=PriorityBody,
)
resize = order(
    *("resize", JOB + "/resize", "Change the size of its gang"),
    "Give an elastic job another number of GPUs; if it runs, it goes on with them.",
    Commands.resize,
    body=ResizeBody,
)
drain = order(
    *("drain", NODE + "/drain", "Start nothing new there"),
    "Start nothing new on a server.",
    Commands.drain,
    of_node,
)
restore = order(
    *("restore", NODE + "/restore", "Put it back to work"),
    "Put a drained server back to work.",
    Commands.restore,
    of_node,
)
quarantine = order(
    *("quarantine", GPU + "/quarantine", "Start nothing new on this GPU"),
    "Start nothing new on one GPU of a server.",
    Commands.quarantine,
    of_gpu,
)
release_gpu = order(
    *("release_gpu", GPU + "/release", "Put it back to work"),
    "Put a quarantined GPU back to work.",
    Commands.release,
    of_gpu,
)


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


async def _submit_tasks(call: Call[NoQuery, SubmitBody], tasks: list[Submission]) -> list[JobId]:
    """Submit an array.

    The first goes ahead alone: if it is refused, all would be; and the others are named after it.
    """
    site, by = call.services.site, call.caller
    ids = [await site.submit(tasks[0], by)]
    for first in range(1, len(tasks), SUBMITTED_TOGETHER):
        part = [
            replace(task, spec=replace(task.spec, array=ids[0]))
            for task in tasks[first : first + SUBMITTED_TOGETHER]
        ]
        ids += await site.submit_together(part, by)
    return ids


# Where the value of a secret variable appears in the command, the command says `{secret:NAME}` from
# here on, in the log too; the value is put back when a process of the job is started.

SECRET_LEAST = 4

ALL_DEPENDENCIES_MOST = 100_000
"""What the tasks of one submission may wait for, once arrays are named task by task; ours."""

DRY_RUN_S = 5.0
"""So long a dry run waits for the policy; ours."""

OTHERWISE = frozenset(("command", "depends_on", "array", "gpus"))
"""Fields that a body says in another form than a specification."""

SAME_FIELDS = SubmitBody.model_fields.keys() & {each.name for each in fields(JobSpec)} - OTHERWISE
"""Fields of a body that go into the specification as they are."""


def submission_of(body: SubmitBody, key: str, *, has_gpus: bool = True) -> Submission:
    """Return the submission of a checked body; an array's is that of all its tasks.

    Args:
        body: it may leave out how many GPUs it asks for.
        key: under which it is made once.
        has_gpus: whether any server has; where none has, who names no number and no type asks for
            none.
    Raises:
        UsageError: a secret is so short that it cannot be told from other text.
    """
    same = {name: getattr(body, name) for name in SAME_FIELDS}
    gpus = int(has_gpus or bool(body.gpu_types)) if body.gpus is None else body.gpus
    cpus = float(gpus == 0) if body.cpus is None else body.cpus
    spec = JobSpec(
        **same,
        gpus=gpus,
        command=_without_secrets(body),
        cpus_milli=round(cpus * 1000),
        time_limit_us=_us(body.time_limit_s),
        checkpoint_interval_us=_us(body.checkpoint_interval_s),
        depends_on=tuple(
            Dependency(JobId(each.job_id), DependsWhen(each.when)) for each in body.depends_on
        ),
    )
    return Submission(spec, body.environment, key)


def has_gpus(cluster: Cluster) -> bool:
    """Say whether any server has GPUs, or units of CPUs in their place."""
    servers = (one for one in cluster.servers.values() if one.health is not Health.removed)
    return any(one.configuration.gpus for one in servers)


async def after_whole_arrays(services: Services, request: Submission, tasks: int = 1) -> Submission:
    """Return a submission with arrays in the place of their first tasks.

    Args:
        services: they know the tasks.
        request: a job, or each task of an array.
        tasks: how many of these are submitted.
    Raises:
        UsageError: it would wait for too many.
    """
    said = request.spec.depends_on
    found: dict[Dependency, None] = {}
    for each in said:
        members = [each.job_id]
        if await _is_first_of_array(services, each.job_id):
            members = await services.groups.tasks(each.job_id) or members
        found.update(dict.fromkeys(replace(each, job_id=member) for member in members))
    if len(found) * tasks > ALL_DEPENDENCIES_MOST > len(said) * tasks:
        raise UsageError(
            f"depends_on: {len(found):,} jobs that are tasks of arrays, times {tasks:,} tasks: "
            f"expected {ALL_DEPENDENCIES_MOST:,} at most: submit one job after that array, and "
            "what is to follow after that job"
        )
    return replace(request, spec=replace(request.spec, depends_on=tuple(found)), said_after=said)


async def _is_first_of_array(services: Services, job_id: JobId) -> bool:
    """Say whether a job is the first task of an array, after which that is named."""
    job = services.site.state.jobs.get(job_id)
    if job is not None:
        return job.spec.array == job_id
    if not services.site.knows(job_id):
        return False
    found = await services.past.read(lambda reader: reader.first_about(job_id))
    event = None if found is None else found[1]
    return isinstance(event, facts.JobSubmitted) and event.spec.array == job_id


def array_of(request: Submission, array: ArrayBody) -> list[Submission]:
    """Return the submission of each task, its index in name and key."""
    spec, key = request.spec, request.key
    return [
        replace(
            request,
            spec=replace(
                spec,
                array_index=index,
                at_once=array.at_once,
                name=f"{spec.name}/{index}" if spec.name else "",
            ),
            key=f"{key}/{index}" if key else "",
        )
        for index in array.indices
    ]


async def dry_run(site: Site, request: Submission, by: Caller, note: str) -> dict[str, object]:
    """Return what would become of a submission now, without making it.

    A `note` says that it can never start, as a job before it failed: no plan is asked then.

    Raises:
        ShunterError: as a submission would.
    """
    submitted, found = site.imagined(request, by), None
    words, state = "", site.state
    try:
        found = None if note else await site.dry_run(submitted, DRY_RUN_S)
        if found is not None and found.wait is not None:
            spec = submitted.spec
            told = told_of_servers(found.wait, spec.demand(), state.cluster, site.unheld)
            if told.blockers or told.reason is Reason.quota:
                named = holding_back(told.blockers, told.reason, spec, state)
                told = replace(told, blockers=named)
            found = msgspec.structs.replace(found, wait=told)
    except PlanError as error:
        words = f"; what the next plan does with it is not known: {error}"
    waiting = sum(job.phase is WAITING for job in state.jobs.values())
    free = sum(pool.gpus_free for pool in state.cluster.pools.values())
    are = "is" if free == 1 else "are"
    would = f"it would be accepted; {jobs_waiting(waiting)}, {counted(free, 'GPU')} {are} free"
    return {
        "schema_version": 1,
        "id": "",
        "ids": [],
        "seq": site.committed,
        "is_dry_run": True,
        "would": note or would + (words or _next_plan(found)),
        "note": note,
        "plan": None if found is None else _plan_part(site, found),
    }


def _next_plan(found: DryRan | None) -> str:
    """Return what the next plan would do with a job, to follow other words."""
    if found is None:
        return "; what the next plan does with it is not known now: the policy is busy or set aside"
    if found.where:
        when = "it would start" if found.starts else "it would be given GPUs that others have yet"
        return f"; {when} with the next plan, on {found.where}"
    why = "" if found.wait is None else f": {found.wait.reason.value}"
    return f"; it would not start with the next plan{why}"


def _plan_part(site: Site, found: DryRan) -> dict[str, object]:
    wait = found.wait
    return {
        "at": site.dated(found.at_us),
        "starts": found.starts,
        "where": found.where,
        "reason": None
        if wait is None
        else {
            "name": wait.reason.value,
            "needed": wait.needed,
            "free": wait.free,
            "blockers": list(wait.blockers[:BLOCKERS_MOST]),
            "detail": wait.detail,
        },
    }


def _without_secrets(body: SubmitBody) -> tuple[str, ...]:
    command = body.command
    for name in body.secrets:
        value = body.environment[name]
        if len(value) < SECRET_LEAST:
            raise UsageError(
                f"secrets: {name} has {len(value)} characters: expected {SECRET_LEAST} or more, "
                "for others would be found everywhere in the command"
            )
        command = tuple(word.replace(value, f"{{secret:{name}}}") for word in command)
    return command


def _us(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds * 1e6))


# Forecasts, which take seconds: one that nobody waits for any more is ended.

AnswerT = TypeVar("AnswerT")

CLIENT_LOOK_S = 0.5
"""How often it is looked whether who asked is still there."""


@route("GET", V1 + "/forecast", "When jobs start and end", ForecastDocument, query=ForecastQuery)
async def forecasts_of_queue(call: Call[ForecastQuery, NoBody]) -> Response:
    """Answer with when jobs start and end; of others' jobs for admins only."""
    by = call.caller
    user = by.user if call.query.user == ME else call.query.user
    made = call.services.forecasts.of_queue(by, user)
    return json_answer(await _while_there(call.request, made))


@route(
    "POST", V1 + "/forecast", "When a job would start and end", ForecastDocument, body=SubmitBody
)
async def forecasts_of_submission(call: Call[NoQuery, SubmitBody]) -> Response:
    """Answer with when a job would start and end; of an array, its first task."""
    site, by = call.services.site, call.caller
    said = submission_of(call.body, "", has_gpus=has_gpus(site.state.cluster))
    request = await after_whole_arrays(call.services, said)
    submitted = site.imagined(request, by)
    made = call.services.forecasts.of_submission(by, submitted)
    return json_answer(await _while_there(call.request, made))


@route("GET", JOB + "/counterfactuals", "What would make it start", StartsIfDocument, query=AtQuery)
async def forecasts_of_changes(call: Call[AtQuery, NoBody]) -> Response:
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
        await anyio.sleep(CLIENT_LOOK_S)
    scope.cancel()


# A proposal is answered once the verdict is durable. One that is rejected again within a round
# leaves no fact of its own; its answer is looked up.

AGAIN = "it could be granted by now: propose again"


@route("GET", V1 + "/view", "What is free, for schedulers", ViewDocument)
async def proposals_view(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with the free GPUs of every server, and who may be proposed."""
    seq, body = call.services.view_now()
    await call.services.durable(seq)
    return Response(body, media_type="application/json")


@route("POST", V1 + "/proposals", "Propose a gang", ProposalDocument, body=ProposalBody)
async def proposals_propose(call: Call[NoQuery, ProposalBody]) -> Response:
    """Grant a gang whole, or reject it and say by which GPUs."""
    services, body, by = call.services, call.body, call.caller
    site = services.site
    site.commands.check_proposer(by)
    services.proposal_rate.take(by.user, clock.monotonic_s())
    job_id = JobId(body.job_id)
    candidates = site.commands.candidates(job_id, body.version, body.candidates, by)
    receipt = await site.tell(site.commands.propose(job_id, body.version, candidates, by))
    verdict = _verdict(receipt.events, candidates, by.user)
    if verdict is None:
        site.commands.candidates(job_id, body.version, body.candidates, by)  # has it ended?
        answer = _looked_up(site, job_id, candidates)
    elif isinstance(verdict, facts.GangApproved):
        answer = _proposal_answer(verdict.version, choice=verdict.choice)
    else:
        refused = Refused(verdict.reason, verdict.detail, verdict.conflicts)
        answer = _proposal_answer(verdict.version, refused=refused)
    last = site.state.proposals.rejections.get(job_id)
    retry_us = None if last is None or answer["approved"] else last.retry_us
    wait_s = None if retry_us is None else max(0, retry_us - site.now_us()) / 1e6
    about = {"schema_version": 1, "job_id": job_id, "retry_after_s": wait_s, "seq": site.committed}
    return json_answer({**answer, **about})


def _looked_up(site: Site, job_id: JobId, candidates: tuple[Allocation, ...]) -> dict[str, object]:
    """Return the answer to a proposal that was rejected again, and left no fact."""
    state = site.state
    proposed = facts.GangProposed(state.now_us, job_id, state.seq, candidates, CALLER)
    found = looked_at(proposed, state, site.rules)
    if not isinstance(found, Refused):
        found = Refused(Reason.waiting_for_round, AGAIN)
    return _proposal_answer(state.seq, refused=found)


def _verdict(
    events: Sequence[Event], candidates: tuple[Allocation, ...], user: str
) -> facts.GangApproved | facts.GangRejected | None:
    """Return what follows the proposal in the facts of its step; None: no fact does.

    Who proposes the same twice in one step has proposed it once.
    """
    for number, event in enumerate(events):
        if isinstance(event, facts.GangProposed) and (event.candidates, event.by) == (
            candidates,
            user,
        ):
            then = events[number + 1]
            assert isinstance(then, facts.GangApproved | facts.GangRejected), (
                "an answer follows at once"
            )
            return then
    return None


def _proposal_answer(
    version: int, *, choice: int | None = None, refused: Refused | None = None
) -> dict[str, object]:
    return {
        "approved": refused is None,
        "choice": choice,
        "version": version,
        "reason": "" if refused is None else refused.reason.value,
        "detail": "" if refused is None else refused.detail,
        "conflicts": {} if refused is None else dict(refused.conflicts),
    }
