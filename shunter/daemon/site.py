"""One running cluster: its state, its log, its loop, and what people may do with it."""

import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import anyio

from shunter import clock
from shunter.backends.node import failpoint
from shunter.config import LoadedConfig
from shunter.core import AcceptedTypes, Command, Effect, Input, Scheduler, State, run_rounds
from shunter.core.planning import RoundRules
from shunter.daemon.backends import LiveBackend
from shunter.daemon.cluster_identity import Identity, watch_clock
from shunter.daemon.command_broker import CommandBroker, Stopped
from shunter.daemon.commands import Commands, Digests, Stamped
from shunter.daemon.feed import Feed
from shunter.daemon.gpu_maps import ServerMap
from shunter.daemon.log_maintenance import (
    LogMaintenance,
    forget_environments,
    keep_for,
    watch_files,
)
from shunter.daemon.notices import (
    HoldsToShares,
    TellOperator,
    start_notices,
    tell_delays,
    tell_faults,
    tell_shares,
    tell_slow_starts,
)
from shunter.daemon.past_jobs import LivePastJobs
from shunter.daemon.policy import PolicyProxy
from shunter.daemon.requests import Caller, Receipt, Submission, no_such_job
from shunter.daemon.slurm import (
    HoldsOnDemand,
    SeesNodes,
    follow_slurm_nodes,
    tell_demand,
    tell_silence,
)
from shunter.errors import NotFoundError, UnreachableError, first_error
from shunter.events import Event, JobId, JobSubmitted, NodeName, SchedulerStopped, ended_before
from shunter.events.log import LogReader, LogWriter, read_log
from shunter.gc_control import collector_off
from shunter.policy_process import DryRan
from shunter.run import snapshot_of

IMAGINED = JobId("dry-run")
"""The id of a job that is only imagined; those of others are numbers."""

_OUTPUT = re.compile(r"(stdout|stderr)(-times)?\.\d{1,6}")


CATCH_UP_S = 5.0
"""So long at most a start waits until the log has what ended before it."""


@dataclass(frozen=True, slots=True)
class Planning:
    """What a policy is at, for how long, and how long it may; no `hook`: nothing."""

    hook: str
    since_s: float
    limit_s: float


class Site:
    """A cluster that runs; made by `open_site`, and at work while `run` is."""

    def __init__(
        self,
        loaded: LoadedConfig,
        identity: Identity,
        core: Scheduler,
        past: LivePastJobs,
        asked: PolicyProxy,
        backend: LiveBackend,
        log: LogWriter,
        digests: Digests,
    ) -> None:
        config = self.config = loaded.config
        self.config_file = str(Path(loaded.source).absolute())
        self.cluster_id = identity.cluster_id
        self.origin = identity.origin
        self._core = core
        self.past = past
        """What is known of jobs that have ended; to be asked on the thread of the loop."""
        self._asked = asked
        self._backend = backend
        self._log = log
        self.feed = Feed(log)
        """Every durable event, as it comes."""
        self._maintenance = LogMaintenance(core, asked, log, backend, config.log)
        self._broker = CommandBroker(backend, log, past, self.feed, self._maintenance)
        servers = [where for _, where in config.cluster.servers()]
        types = AcceptedTypes.among(servers, loaded.throughputs)
        self.commands = Commands(core.state, past, config, digests, types)
        """Checks what people want, and makes of it what `tell` takes."""
        self.strays: Sequence[tuple[str, int]] = ()
        """Attempts that were found running, and of which the log knows nothing."""
        self.ended_unseen: Sequence[tuple[str, int]] = ()
        """Attempts that ended while no scheduler was there; the log gets to know of them."""
        self.maps: Mapping[NodeName, ServerMap] = {}
        """By server the map of its GPUs that counts since the start, and by whom it was told."""

    @property
    def term(self) -> int:
        """The term of this start of the scheduler."""
        return self._log.term

    @property
    def policy(self) -> str:
        """The policy that decides."""
        return self._core.policy.name

    @property
    def state(self) -> State:
        """What is true now; to be read only, on the thread of the loop."""
        return self._core.state

    @property
    def rules(self) -> RoundRules:
        """When plans are made, and how gangs are proposed."""
        return self._core.rules

    @property
    def committed(self) -> int:
        """The sequence number of the last durable event."""
        return self.feed.committed

    def knows(self, job_id: JobId) -> bool:
        """Say whether there is such a job, or was."""
        return self.commands.knows(job_id)

    def now_us(self) -> int:
        """Return the instant it is."""
        return self._backend.now_us()

    def wall(self, at_us: int) -> datetime:
        """Return an instant of the log as a date and time, in UTC."""
        return self.origin + timedelta(microseconds=at_us)

    def dated(self, at_us: int) -> str:
        """Return an instant of the log as a date."""
        return self.wall(at_us).isoformat(timespec="milliseconds")

    def follow(self, after: int) -> AsyncIterator[tuple[int, Event]]:
        """Yield durable events after a sequence number with theirs, until the site stops.

        Raises:
            UsageError: the number lies beyond the log.
        """
        return self.feed.follow(after)

    async def waiting_order(self) -> tuple[JobId, ...]:
        """Return who waits in the order of the policy; nobody, if it has none."""
        return await self._asked.order()

    def imagined(self, request: Submission, by: Caller) -> JobSubmitted:
        """Return the fact that a submission now would be; nothing of it is kept.

        Raises:
            ShunterError: as a submission would be refused, before it is handed in.
        """
        spec = self.commands.checked(IMAGINED, request, by)
        at_us = max(self.state.now_us, self.now_us())
        ended = ended_before(spec.depends_on, self.past) if spec.depends_on else ()
        return JobSubmitted(at_us, IMAGINED, spec, ended=ended)

    async def dry_run(self, submitted: JobSubmitted, limit_s: float) -> DryRan | None:
        """Return what the next plan would do with a job; None: nobody can say in time.

        Raises:
            PlanError: the policy failed on it.
        """
        return await self._asked.dry_run(submitted, self.state, submitted.at_us, limit_s)

    @property
    def planning(self) -> Planning:
        """What the policy is at now."""
        hook, since_s = self._asked.busy
        return Planning(hook, since_s, self._asked.limit_s)

    async def tell(self, stamped: Callable[[int], Command]) -> Receipt:
        """Hand a command in; return once its step is durable and its effects are out.

        Raises:
            UnreachableError: the scheduler stopped before it took the command.
        """
        return await self._broker.tell(stamped)

    async def caught_up(self) -> None:
        """Wait until the log has what ended before this start; not for long."""
        jobs = self.state.jobs
        with anyio.move_on_after(CATCH_UP_S), suppress(UnreachableError):
            while any(
                (job := jobs.get(JobId(job_id))) is not None
                and (job.attempt, job.since_us is not None) == (attempt, True)
                for job_id, attempt in self.ended_unseen
            ):
                await self.feed.reached(self.feed.committed + 1)

    async def tell_all(self, stamped: Sequence[Callable[[int], Command]]) -> list[Receipt]:
        """Hand commands in, in their order; return once all are durable and carried out.

        Raises:
            UnreachableError: the scheduler stopped before it took all of them.
        """
        return await self._broker.tell_all(stamped)

    async def submit(self, request: Submission, by: Caller) -> JobId:
        """Submit a job; return its id once it is durable.

        What was submitted under the same key before is not submitted again, in whatever term.

        Raises:
            UsageError: no job can be like that.
            RefusedError: the caller may not, or no job like that can ever run here.
            ConflictError: something else was submitted under the key before.
            NotFoundError: it depends on a job that does not exist.
        """
        self._broker.refuse_closed()
        commands = self.commands
        known = commands.known(request, by)
        if known is not None:
            await self._refuse_other(known, request, by)
            commands.refuse_rejected(known)
            return known
        job_id = commands.next_id()
        stamped = commands.submit(job_id, request, by)
        await self._backend.store_environments({job_id: request.environment})
        failpoint("environments stored")
        return await self._taken(job_id, request, by, await self.tell(stamped))

    async def submit_together(self, requests: Sequence[Submission], by: Caller) -> list[JobId]:
        """Submit jobs in one go, in their order; return their ids once all are durable.

        Raises:
            ShunterError: as `submit` does, of the first that cannot be taken.
        """
        self._broker.refuse_closed()
        commands, ids = self.commands, list[JobId]()
        fresh: dict[JobId, tuple[Submission, Stamped]] = {}
        for request in requests:
            known = commands.known(request, by)
            if known is not None:
                await self._refuse_other(known, request, by)
            job_id = known or commands.next_id()
            if known is None:
                fresh[job_id] = request, commands.submit(job_id, request, by)
            ids.append(job_id)
        given = {job_id: request.environment for job_id, (request, _) in fresh.items()}
        await self._backend.store_environments(given)
        failpoint("environments stored")
        receipts = await self._broker.tell_all([stamped for _, stamped in fresh.values()])
        taken = {
            job_id: await self._taken(job_id, request, by, receipt)
            for (job_id, (request, _)), receipt in zip(fresh.items(), receipts, strict=True)
        }
        await self.feed.reached(self.state.seq)
        return [taken.get(job_id, job_id) for job_id in ids]

    async def _taken(
        self, job_id: JobId, request: Submission, by: Caller, receipt: Receipt
    ) -> JobId:
        """Return whose submission was taken, of a job that was handed in."""
        commands = self.commands
        taken = job_id
        if not any(isinstance(event, JobSubmitted) for event in receipt.events):
            # Somebody else used the key meanwhile: it was the other job that was taken.
            taken = commands.known(request, by) or job_id
        if taken != job_id:
            await self._backend.store_environments({job_id: {}})
            await self._refuse_other(taken, request, by)
        commands.refuse_rejected(taken, receipt)
        return taken

    async def _refuse_other(self, known: JobId, request: Submission, by: Caller) -> None:
        """Raise ConflictError if a key was used for another submission than this one."""
        await self.feed.reached(self.state.seq)  # the first one may not be durable yet
        async with read_log(self._log) as reader:
            found = await reader.job_events(known)
        first = next(event for _, event in found if isinstance(event, JobSubmitted))
        self.commands.refuse_other(first, request, by)

    def read_log(self) -> AbstractAsyncContextManager[LogReader]:
        """Open what is durable of the log for reading, on any thread."""
        return read_log(self._log)

    async def read_output(
        self, job_id: JobId, attempt: int, name: str, offset: int, size_max: int
    ) -> tuple[bytes, int | None]:
        """Return a part of an attempt's output, and the size of all of it.

        Args:
            job_id: a job of this cluster, whoever's it is.
            attempt: the number of an attempt.
            name: `stdout.RANK` or `stderr.RANK`; `stdout-times.RANK` says when it was printed.
            offset: the first byte.
            size_max: bytes at most.
        Returns:
            the bytes, fewer at the end of what there is; and None where there is no such output.
        Raises:
            NotFoundError: there is no such job, or the name is none of output.
        """
        if not self.knows(job_id):
            raise NotFoundError(no_such_job(job_id, self.knows))
        if not _OUTPUT.fullmatch(name):
            raise NotFoundError(f"{name!r} is no output: expected stdout.RANK or stderr.RANK")
        stream, rank = name.split(".")
        return await self._backend.read_output(job_id, attempt, int(rank), stream, offset, size_max)

    async def run(self, tell: TellOperator = lambda what: None) -> None:
        """Run the round loop until it is asked to stop.

        Args:
            tell: told of faults that end nothing, such as those of a policy.
        Raises:
            LogError: the log cannot be written; nothing was done that is not in it.
            BackendError: the backend failed for good.
        """
        for notice in start_notices(self._log, self.strays, self.maps):
            tell(notice)
        cause = "it was asked to"
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._maintenance.run)
                tasks.start_soon(watch_files, self._log)
                tasks.start_soon(watch_clock, self._backend.post)
                tasks.start_soon(forget_environments, self.feed, self._backend)
                tasks.start_soon(tell_faults, self.feed, self._core, self._asked, tell)
                tasks.start_soon(tell_delays, self._asked, tell)
                tasks.start_soon(tell_slow_starts, self.feed, self._core, tell)
                if isinstance(self._backend, HoldsToShares):
                    tasks.start_soon(tell_shares, self._backend, tell)
                drained_by: dict[NodeName, str] = {}
                if isinstance(self._backend, HoldsOnDemand):
                    tasks.start_soon(tell_demand, self.feed, self.state, self._backend, drained_by)
                if isinstance(self._backend, SeesNodes):
                    seen = (self.feed, self._log, self.state, self._backend, self.tell)
                    tasks.start_soon(follow_slurm_nodes, *seen, drained_by)
                    tasks.start_soon(tell_silence, self._backend, tell)
                if keep_s := self.config.backend.keep_s:
                    keeping = (keep_s, self._backend, self.state, self.past, self.feed, tell)
                    tasks.start_soon(keep_for, *keeping)
                await self._loop()
                tasks.cancel_scope.cancel()
            await self._say_goodbye()
        except BaseExceptionGroup as errors:
            error = first_error(errors)
            cause = str(error)
            raise error from errors
        finally:
            self._broker.close(cause)
            self.feed.close()

    @property
    def node_causes(self) -> Mapping[NodeName, str]:
        """Why servers do not answer, or take no jobs in Slurm, of those that do not."""
        backend, silence = self._backend, self.slurm_silence or ""
        out = backend.out_of_service(clock.wall_s()) if isinstance(backend, SeesNodes) else None
        unknown = dict.fromkeys(self.state.cluster.servers if silence else (), silence)
        return {**unknown, **(out or {}), **backend.causes}

    @property
    def unheld(self) -> Collection[NodeName]:
        """The servers that are held as jobs need them, and are not held now."""
        return self._backend.unheld if isinstance(self._backend, HoldsOnDemand) else ()

    @property
    def slurm_silence(self) -> str | None:
        """For how long Slurm has not answered, in words; None where there is no Slurm."""
        return self._backend.silence if isinstance(self._backend, SeesNodes) else None

    @property
    def silent_servers(self) -> Mapping[NodeName, str]:
        """Why servers do not answer now, of those that do not."""
        return self._backend.causes

    def launch_wait(self, job_id: JobId) -> str:
        """Return what the launch of a job waits for; nothing if it does not."""
        return self._backend.launch_wait(job_id)

    def stop(self) -> None:
        """Let `run` end after the step it is in; jobs run on."""
        self._broker.stop()

    async def _loop(self) -> None:
        # A collection takes as long as a round; it has its time while the loop waits.
        with suppress(Stopped), collector_off():
            now_us = self._core.state.now_us
            await run_rounds(self._core, self._broker, self._broker, now_us, step=self._step)

    async def _step(self, now_us: int, inputs: Sequence[Input]) -> tuple[list[Event], list[Effect]]:
        hand_on = partial(self._broker.hand_on, self._core)
        return await self._asked.step(self._core, now_us, inputs, hand_on)

    async def _say_goodbye(self) -> None:
        """Close the term, with a snapshot for the next one."""
        core = self._core
        at_us = max(core.state.now_us, self.now_us())
        core.view.open()
        stopped = SchedulerStopped(at_us, "asked to stop")
        core.emit(stopped)
        core.view.close()
        self._broker.append([stopped])
        await self._asked.farewell([stopped])
        memory = await self._asked.memory(core.state.seq)
        await self._log.save_snapshot(snapshot_of(core, memory))
        await self._broker.commit()
