"""What people may do, checked before the core gets it: whose job it is, what it depends on.

Ids of jobs are `j1`, `j2`, …, each higher than all that were ever used.
"""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from shunter.ask import refuse_impossible, rejection_in_words
from shunter.backends.live import put_privately
from shunter.config import LEARNS_TOLERANCE, Config, learns_tolerance
from shunter.core import (
    ENDING,
    AcceptedTypes,
    Admission,
    CancelJob,
    ChangePriority,
    Command,
    DiscardCheckpoint,
    DrainNode,
    Health,
    Job,
    ProposeGang,
    QuarantineGpu,
    ReleaseGpu,
    ReleaseJob,
    ResizeJob,
    RestoreNode,
    SetAttemptAside,
    State,
    SubmitJob,
    SuspendJob,
    has_no_turn,
)
from shunter.core.fold import awaited, given_up, waits_for_checkpoint
from shunter.core.ranking import PRIORITY_MOST
from shunter.core.speeds import has_learnt_floor
from shunter.daemon.past_jobs import LivePastJobs
from shunter.daemon.requests import Caller, Receipt, Submission, no_such_job, server_for
from shunter.daemon.slurm import as_first_asked, asked_of_slurm
from shunter.errors import BackendError, ConflictError, NotFoundError, RefusedError, UsageError
from shunter.events import (
    Allocation,
    JobId,
    JobSpec,
    NodeName,
    Share,
    SuspendMode,
    UserName,
    facts,
    key_of,
    number_of,
)

# The log knows names of variables and keyed digests of their values: equal digests under a name are
# equal values. Who has only the log can find no value by trying: the key is no part of it.

KEY = "environment.key"
KEY_BYTES = 32
DIGEST_BYTES = 8


class Digests:
    """Makes digests under the key of a folder of attempts."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def below(cls, root: str) -> "Digests":
        """Return those of a folder, whose key (a file of mode 0600) is made if need be.

        Raises:
            BackendError: the file cannot be read or written, or holds no key.
        """
        path = Path(root) / KEY
        try:
            if not path.exists():
                put_privately(path, secrets.token_hex(KEY_BYTES))
            key = bytes.fromhex(path.read_text(encoding="ascii"))
        except OSError as error:
            raise BackendError(f"the key {path} cannot be used: {error.strerror}") from error
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise BackendError(
                f"the key {path} is damaged: expected {2 * KEY_BYTES} hexadecimal digits; move it "
                "away for a new one, with which digests of earlier jobs cannot be compared"
            )
        return cls(key)

    def of(self, environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return each name with the digest of its value, in order of names."""
        return tuple((name, self._digest(name, environment[name])) for name in sorted(environment))

    def _digest(self, name: str, value: str) -> str:
        text = f"{name}\0{value}".encode("utf-8", "surrogateescape")
        return blake2b(text, digest_size=DIGEST_BYTES, key=self._key).hexdigest()


Stamped = Callable[[int], Command]


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
        self._admission = Admission(state.cluster)
        self._past = past
        self._config = config
        self._digests = digests
        self._last = max([past.last_number, *map(number_of, state.jobs)])

    def next_id(self) -> JobId:
        """Return the id that the next job to be submitted gets; `submit` uses it up."""
        return JobId(f"j{self._last + 1}")

    def knows(self, job_id: JobId) -> bool:
        """Say whether there is such a job, or was."""
        return job_id in self._state.jobs or self._past.outcome(job_id) is not None

    def known(self, request: Submission, by: Caller) -> JobId | None:
        """Return the job of an earlier submission under the same key, if there was one."""
        if not request.key:
            return None
        return self._past.job_of(key_of(UserName(by.user), request.key))

    def refuse_other(self, first: facts.JobSubmitted, request: Submission, by: Caller) -> None:
        """Refuse a submission under a key that was used for another one.

        Raises:
            ConflictError: it is not what was submitted under the key before.
        """
        job_id = first.job_id
        spec = replace(self._spec(job_id, request, by), array=first.spec.array)
        spec = as_first_asked(spec, first.spec, self._config)
        if not request.spec.gpu_types:  # the servers and the table may have been others then
            spec = replace(spec, gpu_types=first.spec.gpu_types)
        if request.said_after and first.spec.depends_on == request.said_after:
            # A log of before named the first task of an array alone.
            spec = replace(spec, depends_on=first.spec.depends_on)
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
        self._last = max(self._last, number_of(job_id))
        given = self._digests.of(request.environment)
        return lambda at_us: SubmitJob(at_us, job_id, spec, key=request.key, environment=given)

    def checked(self, job_id: JobId, request: Submission, by: Caller) -> JobSpec:
        """Return the specification of a job that may be submitted.

        Raises:
            UsageError: no job can be like that.
            RefusedError: the caller may not, there is no such queue, or it can never run here.
            NotFoundError: it depends on a job that does not exist.
        """
        request.check()
        self._check_identity(by)
        spec = request.spec
        if self._config.policy.slicing and spec.gpus and spec.suspend_mode is SuspendMode.never:
            raise RefusedError(
                "jobs share GPUs in turns here (policy.slicing), and one of suspend mode 'never' "
                "lets nobody have a turn: submit it with another one, such as 'cooperative'"
            )
        if has_learnt_floor(spec) and not learns_tolerance(self._config):
            raise RefusedError(
                f"min_speed = {spec.min_speed:g}: no curves are learnt here ("
                f"{LEARNS_TOLERANCE}): say tolerance or shape_tolerance"
            )
        spec = asked_of_slurm(self._spec(job_id, request, by), self._config)
        refuse_impossible(spec, self._state, self._admission)
        return spec

    def refuse_rejected(self, job_id: JobId, receipt: Receipt | None = None) -> None:
        """Raise RefusedError if a job was rejected: servers were others meanwhile."""
        events = receipt.events if receipt is not None else ()
        told = [event for event in events if isinstance(event, facts.JobRejected)]
        specs = [event.spec for event in events if isinstance(event, facts.JobSubmitted)]
        if not told and (specs or self._past.outcome(job_id) is not facts.Outcome.rejected):
            return
        why = "see its events"
        if told:
            words = rejection_in_words(told[0], specs[0] if specs else None, self._state.cluster)
            why = f"{told[0].reason}: {words}"
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
        if waits_for_checkpoint(job) and job.stays_on is None:
            silent = ", ".join(awaited(job, self._state.cluster))
            raise RefusedError(
                f"job {job_id} waits for {silent}, where its checkpoint lies, to answer or to be "
                f"lost; `shunter admin discard-checkpoint {job_id}` lets it go on without it"
            )
        return lambda at_us: ReleaseJob(at_us, job_id, by.user)

    def discard_checkpoint(self, job_id: JobId, by: Caller) -> Stamped:
        """Return the order to give up what a job saved on servers for which it waits."""
        job = self._own_job(job_id, by)
        if given_up(job, self._state.cluster) is None:
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

    def resize(self, job_id: JobId, gpus: int, by: Caller) -> Stamped:
        """Return the order to give an elastic job another size.

        Raises:
            UsageError: it does not take so many.
        """
        job, state = self._own_job(job_id, by), self._state
        spec = job.submitted_spec
        fewest, most = spec.sizes
        if not spec.is_elastic:
            raise RefusedError(
                f"job {job_id} is not elastic: it was submitted with neither --gpus-min nor "
                "--gpus-max, and keeps its size"
            )
        if not fewest <= gpus <= most:
            raise UsageError(f"gpus = {gpus}: job {job_id} takes {fewest} to {most}")
        if job.end_cause or job.phase is ENDING:
            raise RefusedError(f"job {job_id} is about to end and needs no other size")
        wanted = spec.resized(gpus)
        demand = state.demand_of(wanted)
        refusal = self._admission.refusal(demand, spec.user, state.queue_of(job))
        if refusal is not None:
            why = rejection_in_words(refusal, wanted, state.cluster)
            raise RefusedError(f"with {gpus} GPUs job {job_id} can never run here: {why}")
        return lambda at_us: ResizeJob(at_us, job_id, gpus, by.user)

    def check_proposer(self, by: Caller) -> None:
        """Refuse callers who may not propose gangs, and clusters where nobody may."""
        if not (by.is_proposer or by.is_admin):
            raise RefusedError(
                f"proposing gangs needs the role proposer, and {by.user} is neither named in "
                "server.proposers nor an admin"
            )
        if self._config.policy.decentralised is None:
            raise RefusedError(
                "this cluster's policy places jobs itself; [policy.decentralised] lets schedulers "
                "propose"
            )

    def candidates(
        self, job_id: JobId, version: int, places: Sequence[Mapping[str, int]], by: Caller
    ) -> tuple[Allocation, ...]:
        """Return the allocations that a caller proposes for a job.

        Args:
            job_id: one of the caller's.
            version: the last event that the caller has seen.
            places: by server the masks of GPUs; CPUs and memory go with them as the job asks.
            by: who proposes.
        Raises:
            UsageError: no gang of the job can be like that.
        """
        job, seq = self._own_job(job_id, by), self._state.seq
        if version > seq:
            raise UsageError(f"version = {version}: expected {seq} at most, the last event")
        if job.allocation.shares:
            raise RefusedError(
                f"job {job_id} is {job.phase} and has its GPUs: propose waiting jobs"
            )
        if not job.spec.gpus:
            raise UsageError(f"job {job_id} needs no GPUs: the policy places it")
        return tuple([self._candidate(job, number, one) for number, one in enumerate(places)])

    def propose(
        self, job_id: JobId, version: int, candidates: tuple[Allocation, ...], by: Caller
    ) -> Stamped:
        """Return the order to look at a proposal."""
        return lambda at_us: ProposeGang(at_us, job_id, version, candidates, by.user)

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
        server_for(self._state, node, by)
        return lambda at_us: DrainNode(at_us, node, by.user)

    def restore(self, node: NodeName, by: Caller) -> Stamped:
        """Return the order to put a drained server back to work."""
        if not server_for(self._state, node, by).drained:
            raise RefusedError(f"node {node} is not drained")
        return lambda at_us: RestoreNode(at_us, node, by.user)

    def quarantine(self, node: NodeName, gpu: int, by: Caller) -> Stamped:
        """Return the order to start nothing on one GPU of a server."""
        server_for(self._state, node, by, gpu, is_quarantined=False)
        return lambda at_us: QuarantineGpu(at_us, node, gpu, by.user)

    def release(self, node: NodeName, gpu: int, by: Caller) -> Stamped:
        """Return the order to put a quarantined GPU back to work."""
        server_for(self._state, node, by, gpu, is_quarantined=True)
        return lambda at_us: ReleaseGpu(at_us, node, gpu, by.user)

    def _own_job(self, job_id: JobId, by: Caller) -> Job:
        """Return a job which the caller may change."""
        job = self._state.jobs.get(job_id)
        if job is None:
            outcome = self._past.outcome(job_id)
            if outcome is None:
                raise NotFoundError(no_such_job(job_id, self.knows))
            raise RefusedError(f"job {job_id} has ended already: {outcome}")
        if not by.is_admin and job.spec.user != by.user:
            owner = job.spec.user or "somebody"
            raise RefusedError(f"job {job_id} is {owner}'s, and {by.user} is no admin")
        return job

    def _candidate(self, job: Job, number: int, masks: Mapping[str, int]) -> Allocation:
        """Return a place for a job, if there are such GPUs, and as many as it needs."""
        servers, shares = self._state.cluster.servers, list[Share]()
        counts = [masks[node].bit_count() for node in sorted(masks)]
        if sum(counts) != job.spec.gpus:
            raise UsageError(
                f"candidates.{number}: {sum(counts)} GPUs: expected the whole gang of "
                f"{job.spec.gpus}"
            )
        parts = job.demand.resources.divided(counts)
        for node, part in zip(sorted(masks), parts, strict=True):
            server = servers.get(NodeName(node))
            if server is None or server.health is Health.removed:
                raise NotFoundError(
                    f"candidates.{number}: there is no node {node}; `shunter nodes` lists them"
                )
            where = server.configuration
            if masks[node] & ~server.all_gpus:
                raise UsageError(
                    f"candidates.{number}.{node} = {masks[node]}: node {node} has {where.gpus} "
                    f"GPUs: expected a mask of {server.all_gpus} at most"
                )
            cpus_milli = max(part.cpus_milli, part.gpus * where.unit_cpus_milli)
            shares.append(Share(server.name, masks[node], cpus_milli, part.memory_mb))
        return Allocation(tuple(shares))

    def _own_members(self, members: Sequence[JobId], by: Caller) -> list[JobId]:
        """Return the jobs of a group that have not ended; the caller may change them."""
        return [self._own_job(one, by).job_id for one in members if one in self._state.jobs]

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
        spec, queues = request.spec, self._config.queue_names
        if spec.queue not in queues:
            raise RefusedError(f"there is no queue {spec.queue!r}: use {', '.join(queues)}")
        for dependency in spec.depends_on:
            if not self.knows(dependency.job_id):
                raise NotFoundError(no_such_job(dependency.job_id, self.knows, " to wait for"))
        first = spec.array or JobId("" if spec.array_index is None else job_id)
        if instances := self._types.mig_alone(spec):
            raise RefusedError(
                f"{', '.join(instances)} are MIG instances, of which a program can use one: "
                "ask for one GPU, or name a type of whole GPUs"
            )
        return replace(self._types.of(spec), user=UserName(by.user), array=first)


def _check_priority(priority: int) -> None:
    """Refuse a number that no priority can be."""
    if abs(priority) > PRIORITY_MOST:
        raise UsageError(f"priority = {priority}: expected {PRIORITY_MOST} at most, or minus it")
