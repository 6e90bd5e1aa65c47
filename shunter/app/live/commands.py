"""What people may do, checked before it is told to the core: whose job it is, what it depends on.

Ids of jobs are `j1`, `j2`, …: as many as were submitted, so they never come again, in no term.
"""

import os
from collections.abc import Awaitable, Callable

from shunter.app.config.model import Config
from shunter.app.live.requests import Caller, Receipt, Submission
from shunter.core.intake.inputs import CancelJob, Command, SubmitJob
from shunter.core.state import Job, State
from shunter.errors import NotFoundError, RefusedError
from shunter.events.facts.jobs import JobRejected
from shunter.events.values.ids import GpuType, JobId, QueueName, UserName
from shunter.events.values.job_spec import JobSpec

__all__ = ["Commands"]

Stamped = Callable[[int], Command]
Tell = Callable[[Stamped], Awaitable[Receipt]]


class Commands:
    """Turns requests into commands, or says why not."""

    def __init__(self, state: State, config: Config) -> None:
        self._state = state
        self._config = config
        self._submitted = state.submitted

    async def submit(self, tell: Tell, request: Submission, by: Caller) -> JobId:
        """Submit a job and return its id.

        Raises:
            RefusedError: the caller may not, or no job like that can ever run here.
            NotFoundError: it depends on a job that does not exist.
        """
        self._check_identity(by)
        spec = self._spec(request, by)
        self._submitted += 1
        job_id = JobId(f"j{self._submitted}")
        receipt = await tell(lambda at_us: SubmitJob(at_us, job_id, spec))
        for event in receipt.events:
            if isinstance(event, JobRejected):
                raise RefusedError(f"job {job_id} can never run here: {event.detail}")
        return job_id

    def cancel(self, job_id: JobId, by: Caller) -> Stamped:
        """Return the order to end a job."""
        self._own_job(job_id, by)
        return lambda at_us: CancelJob(at_us, job_id, by.user)

    def _own_job(self, job_id: JobId, by: Caller) -> Job:
        """Return a job which the caller may change."""
        job = self._state.jobs.get(job_id)
        if job is None:
            outcome = self._state.ended.get(job_id)
            if outcome is None:
                raise NotFoundError(f"there is no job {job_id}; `shunter queue` lists them")
            raise RefusedError(f"job {job_id} has {outcome} already")
        if not by.is_admin and job.spec.user != by.user:
            raise RefusedError(f"job {job_id} is {job.spec.user}'s, and {by.user} is no admin")
        return job

    def _check_identity(self, by: Caller) -> None:
        """Refuse to run somebody's job as somebody else."""
        ours = os.geteuid()
        if ours and by.uid is not None and by.uid != ours:
            raise RefusedError(
                f"this scheduler runs as uid {ours} and can start no jobs of uid {by.uid}; "
                "run it as root to serve others"
            )

    def _spec(self, request: Submission, by: Caller) -> JobSpec:
        for dependency in request.after:
            known = dependency.job_id in self._state.jobs or dependency.job_id in self._state.ended
            if not known:
                raise NotFoundError(f"there is no job {dependency.job_id} to wait for")
        return JobSpec(
            gpus=request.gpus,
            user=UserName(by.user),
            queue=QueueName(request.queue),
            model=request.model,
            batch_size=request.batch_size,
            total_steps=request.total_steps,
            cpus_milli=request.cpus_milli,
            memory_mb=request.memory_mb,
            time_limit_us=request.time_limit_us,
            weight=request.weight,
            priority=request.priority,
            gpu_types=tuple(GpuType(name) for name in request.gpu_types),
            name=request.name,
            group=request.group,
            command=request.command,
            directory=request.directory,
            deadline_us=request.deadline_us,
            depends_on=request.after,
            array_index=request.array_index,
            max_level=request.max_level,
            suspend_mode=request.suspend_mode,
            checkpoint_interval_us=request.checkpoint_interval_us,
        )
