"""From the body of a submission to what the site takes, whole arrays included.

Secrets: where the value of a variable that is named secret stands in the command, the command says
`{secret:NAME}` from here on, in the log and everywhere; the value is put back when a process of the
job is started.
"""

from dataclasses import fields, replace

import msgspec

from shunter.api.documents.queue import BLOCKERS_MOST, told_of_servers
from shunter.api.models.submission import ArrayBody, SubmitBody
from shunter.api.services import Services
from shunter.ask.waits import holding_back
from shunter.core.cluster import Cluster, Health
from shunter.core.state import WAITING
from shunter.counting import counted, jobs_waiting
from shunter.daemon.policy_process.messages import DryRan
from shunter.daemon.requests import Caller, Submission
from shunter.daemon.site import Site
from shunter.errors import PlanError, UsageError
from shunter.events.facts import JobSubmitted
from shunter.events.values import Dependency, DependsWhen, JobId, JobSpec, Reason

SECRET_LEAST = 4

DEPENDENCIES_MOST = 100_000
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
    if len(found) * tasks > DEPENDENCIES_MOST > len(said) * tasks:
        raise UsageError(
            f"depends_on: {len(found):,} jobs that are tasks of arrays, times {tasks:,} tasks: "
            f"expected {DEPENDENCIES_MOST:,} at most: submit one job after that array, and what "
            "is to follow after that job"
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
    return isinstance(event, JobSubmitted) and event.spec.array == job_id


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
        "at": site.wall(found.at_us).isoformat(timespec="milliseconds"),
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
