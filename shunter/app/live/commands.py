"""What people may do, checked before it is told to the core: whose job it is, what it depends on.

Ids of jobs are `j1`, `j2`, …, each higher than all that were ever used.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from shunter.app.config.model import Config
from shunter.app.live.digests import Digests
from shunter.app.live.past_jobs import LivePastJobs
from shunter.app.live.requests import Caller, Receipt, Submission
from shunter.app.replaying.rejections import is_short_when_empty, rejection_in_words
from shunter.app.slurm.resource_parts import as_first_asked, asked_of_slurm
from shunter.core.cluster import Health
from shunter.core.fold.checkpoints import awaited, waits_for_checkpoint
from shunter.core.intake.accepted_types import AcceptedTypes
from shunter.core.intake.arrays import has_no_turn
from shunter.core.intake.inputs import (
    CancelJob,
    ChangePriority,
    Command,
    DiscardCheckpoint,
    DrainNode,
    ReleaseJob,
    RestoreNode,
    SetAttemptAside,
    SubmitJob,
    SuspendJob,
)
from shunter.core.ranking.keys import PRIORITY_MOST
from shunter.core.state import Job, State
from shunter.errors import ConflictError, NotFoundError, RefusedError, UsageError
from shunter.events.facts.jobs import JobRejected, JobSubmitted, Outcome
from shunter.events.past_jobs import key_of, number_of
from shunter.events.values.ids import JobId, NodeName, UserName
from shunter.events.values.job_spec import JobSpec, SuspendMode

Stamped = Callable[[int], Command]
DEFAULT_QUEUE = "default"
"""The only queue where a config names none."""


class Commands:
    """Turns requests into commands, or says why not.

    Every order raises NotFoundError where there is no such job or server, and RefusedError where it
    is not the caller's to change, has ended, or is in no state in which that can be done.
    """

    def __init__(
        self,
        state: State,
        past: LivePastJobs,
        config: Config,
        digests: Digests,
        types: AcceptedTypes,
    ) -> None:
        self._types = types
        self._state = state
        self._past = past
        self._config = config
        self._digests = digests
        self._last = max([past.last_number, *map(number_of, state.jobs)])

    def next_id(self) -> JobId:
        """Allot the id of a job that is about to be submitted."""
        self._last += 1
        return JobId(f"j{self._last}")

    def known(self, request: Submission, by: Caller) -> JobId | None:
        """Return the job of an earlier submission under the same key, if there was one."""
        if not request.key:
            return None
        return self._past.job_of(key_of(UserName(by.user), request.key))

    def refuse_other(self, first: JobSubmitted, request: Submission, by: Caller) -> None:
        """Refuse a submission under a key that was used for another one.

        Raises:
            ConflictError: it is not what was submitted under the key before.
        """
        job_id = first.job_id
        spec = replace(self._spec(job_id, request, by), array=first.spec.array)
        spec = as_first_asked(spec, first.spec, self._config)
        if not request.spec.gpu_types:  # the servers and the table may have been others then
            spec = replace(spec, gpu_types=first.spec.gpu_types)
        if spec != first.spec or self._digests.of(request.environment) != first.environment:
            raise ConflictError(
                f"the key {request.key!r} was used for job {job_id}, which is another one than "
                "this: take a new key for another job"
            )

    def submit(self, job_id: JobId, request: Submission, by: Caller) -> Stamped:
        """Return the order to take a job in.

        Raises:
            ShunterError: as `checked` does.
        """
        spec = self.checked(job_id, request, by)
        given = self._digests.of(request.environment)
        return lambda at_us: SubmitJob(at_us, job_id, spec, key=request.key, environment=given)

    def checked(self, job_id: JobId, request: Submission, by: Caller) -> JobSpec:
        """Return the specification of a job that may be submitted.

        Raises:
            UsageError: no job can be like that.
            RefusedError: the caller may not, or there is no such queue.
            NotFoundError: it depends on a job that does not exist.
        """
        request.check()
        self._check_identity(by)
        return asked_of_slurm(self._spec(job_id, request, by), self._config)

    def refuse_rejected(self, job_id: JobId, receipt: Receipt | None = None) -> None:
        """Raise RefusedError if a submitted job can never run here."""
        events = receipt.events if receipt is not None else ()
        told = [event for event in events if isinstance(event, JobRejected)]
        specs = [event.spec for event in events if isinstance(event, JobSubmitted)]
        if not told and (specs or self._past.outcome(job_id) is not Outcome.rejected):
            return
        why = "see its events"
        if told and specs and is_short_when_empty(told[0]):
            words = rejection_in_words(told[0], specs[0], self._state.cluster)
            why = f"{told[0].reason}: {words}"
        elif told:
            numbers = f"; needed {told[0].needed}, at most {told[0].most}" if told[0].needed else ""
            why = f"{told[0].reason}: {told[0].detail}{numbers}"
        raise RefusedError(f"job {job_id} can never run here: {why}")

    def cancel(self, job_id: JobId, by: Caller) -> Stamped:
        """Return the order to end a job."""
        self._own_job(job_id, by)
        return lambda at_us: CancelJob(at_us, job_id, by.user)

    def suspend(self, job_id: JobId, by: Caller) -> Stamped:
        """Return the order to make a job leave its GPUs and wait until it is resumed."""
        job = self._own_job(job_id, by)
        if job.spec.suspend_mode is SuspendMode.never and job.since_us is not None:
            raise RefusedError(
                f"job {job_id} runs and was submitted with suspend mode 'never'; cancel it instead"
            )
        return lambda at_us: SuspendJob(at_us, job_id, by.user)

    def resume(self, job_id: JobId, by: Caller) -> Stamped:
        """Return the order to let a held job start."""
        job = self._own_job(job_id, by)
        if not job.is_on_hold:
            raise RefusedError(f"job {job_id} is {job.phase} and not held: nothing is to resume")
        if has_no_turn(job):
            raise RefusedError(
                f"job {job_id} waits for its turn: {job.spec.at_once} tasks of array "
                f"{job.spec.array} may run at once"
            )
        if waits_for_checkpoint(job):
            silent = ", ".join(awaited(job, self._state.cluster))
            raise RefusedError(
                f"job {job_id} waits for {silent}, where its checkpoint lies, to answer or to be "
                f"lost; `shunter discard-checkpoint {job_id}` lets it go on without it"
            )
        return lambda at_us: ReleaseJob(at_us, job_id, by.user)

    def discard_checkpoint(self, job_id: JobId, by: Caller) -> Stamped:
        """Return the order to give up what a job saved on servers that do not answer."""
        job = self._own_job(job_id, by)
        if job.since_us is not None or not awaited(job, self._state.cluster):
            raise RefusedError(
                f"job {job_id} is {job.phase} and waits for no server that has its checkpoint: "
                "nothing is to discard"
            )
        return lambda at_us: DiscardCheckpoint(at_us, job_id, by.user)

    def set_aside(self, job_id: JobId, by: Caller) -> Stamped:
        """Return the order to believe nothing that a job's attempt tells, and to end it."""
        job = self._own_job(job_id, by)
        if job.since_us is None:
            raise RefusedError(f"job {job_id} is {job.phase} and has no attempt to be set aside")
        return lambda at_us: SetAttemptAside(at_us, job_id, by.user)

    def set_priority(self, job_id: JobId, priority: int, by: Caller) -> Stamped:
        """Return the order to give a job another priority."""
        _check_priority(priority)
        self._own_job(job_id, by)
        return lambda at_us: ChangePriority(at_us, job_id, priority, by.user)

    def cancel_group(self, group: str, members: Sequence[JobId], by: Caller) -> list[Stamped]:
        """Return the orders to end each member of a group that has not ended; maybe none."""

        def ended(job_id: JobId) -> Stamped:
            return lambda at_us: CancelJob(at_us, job_id, by.user, group)

        return [ended(job_id) for job_id in self._own_members(members, by)]

    def set_group_priority(
        self, group: str, members: Sequence[JobId], priority: int, by: Caller
    ) -> list[Stamped]:
        """Return the orders to give each member of a group that has not ended a priority."""
        _check_priority(priority)

        def changed(job_id: JobId) -> Stamped:
            return lambda at_us: ChangePriority(at_us, job_id, priority, by.user, group)

        return [changed(job_id) for job_id in self._own_members(members, by)]

    def drain(self, node: NodeName, by: Caller) -> Stamped:
        """Return the order to start nothing on a server any more."""
        self._check_node(node, by)
        return lambda at_us: DrainNode(at_us, node, by.user)

    def restore(self, node: NodeName, by: Caller) -> Stamped:
        """Return the order to put a drained server back to work."""
        self._check_node(node, by)
        if not self._state.cluster.server(node).drained:
            raise RefusedError(f"node {node} is not drained")
        return lambda at_us: RestoreNode(at_us, node, by.user)

    def _own_job(self, job_id: JobId, by: Caller) -> Job:
        """Return a job which the caller may change."""
        job = self._state.jobs.get(job_id)
        if job is None:
            outcome = self._past.outcome(job_id)
            if outcome is None:
                raise NotFoundError(f"there is no job {job_id}; `shunter queue` lists them")
            raise RefusedError(f"job {job_id} has ended already: {outcome}")
        if not by.is_admin and job.spec.user != by.user:
            owner = job.spec.user or "somebody"
            raise RefusedError(f"job {job_id} is {owner}'s, and {by.user} is no admin")
        return job

    def _own_members(self, members: Sequence[JobId], by: Caller) -> list[JobId]:
        """Return the jobs of a group that have not ended; the caller may change them."""
        return [self._own_job(one, by).job_id for one in members if one in self._state.jobs]

    def _check_node(self, node: NodeName, by: Caller) -> None:
        """Refuse servers that do not exist, and callers who may not touch any."""
        server = self._state.cluster.servers.get(node)
        if server is None or server.health is Health.removed:
            raise NotFoundError(f"there is no node {node}; `shunter nodes` lists them")
        if not by.is_admin:
            raise RefusedError(f"only admins may drain or restore nodes, and {by.user} is none")

    def _check_identity(self, by: Caller) -> None:
        """Refuse to run somebody's job as somebody else."""
        ours = os.geteuid()
        is_other = by.uid is not None and by.uid != ours
        if is_other and self._config.backend.kind == "slurm":
            raise RefusedError(
                f"pilots run as uid {ours}, who runs this scheduler, and take no jobs of uid "
                f"{by.uid}: run a scheduler of your own on this Slurm cluster"
            )
        if ours and by.uid is not None and by.uid != ours:
            raise RefusedError(
                f"this scheduler runs as uid {ours} and can start no jobs of uid {by.uid}; "
                "run it as root to serve others"
            )

    def _spec(self, job_id: JobId, request: Submission, by: Caller) -> JobSpec:
        """Return the specification of a job, once all it names is known to exist."""
        state, queues = self._state, tuple(self._config.queues) or (DEFAULT_QUEUE,)
        spec = request.spec
        if spec.queue not in queues:
            raise RefusedError(f"there is no queue {spec.queue!r}: use {', '.join(queues)}")
        for dependency in spec.depends_on:
            other = dependency.job_id
            if other not in state.jobs and self._past.outcome(other) is None:
                raise NotFoundError(f"there is no job {other} to wait for")
        first = spec.array or JobId("" if spec.array_index is None else job_id)
        return replace(self._types.of(spec), user=UserName(by.user), array=first)


def _check_priority(priority: int) -> None:
    """Refuse a number that no priority can be."""
    if abs(priority) > PRIORITY_MOST:
        raise UsageError(f"priority = {priority}: expected {PRIORITY_MOST} at most, or minus it")
