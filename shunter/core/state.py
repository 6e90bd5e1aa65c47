"""What is true now: the fold of the log, and nothing that is not in the log.

Only the rules in `core/fold` write to it. Fields marked derived are rebuilt from the others when
a snapshot is read, so snapshots leave them out.

First the phases of a job and the steps between them; then places of checkpoints, queues and
proposals; then `Job`, `State`, and the digest of it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

from shunter.core.cluster import Cluster
from shunter.core.speeds import (
    NO_PACE,
    BestBatch,
    KnownVerdict,
    MeasuredCell,
    MeasuredPlacement,
    MeasuredRate,
    Pace,
    Trial,
    bounded,
)
from shunter.events import (
    DERIVED,
    JOB_ENDS,
    NOTHING,
    Allocation,
    ChangeKey,
    Demand,
    Event,
    JobId,
    JobSpec,
    NodeName,
    QueueName,
    Reason,
    Share,
    Sharing,
    Wait,
    encode_record,
    fact,
    facts,
    record,
)


class JobPhase(StrEnum):
    """Where a job is in its life."""

    waiting = "waiting"  # it was given no GPUs
    granted = "granted"  # it was given GPUs that others have yet to leave
    launching = "launching"  # its attempt holds its GPUs and has not started yet
    running = "running"
    suspending = "suspending"  # its attempt leaves its GPUs: the job waits then, or goes elsewhere
    ending = "ending"  # its attempt leaves its GPUs for good


# Looking up a member on its enum takes ten times as long as a name of the module (Python 3.11).
WAITING, GRANTED, LAUNCHING, RUNNING, SUSPENDING, ENDING = JobPhase

AT_WORK = (LAUNCHING, RUNNING)
"""Its attempt stays where it is until it is asked to leave."""
LEAVING = (SUSPENDING, ENDING)
"""Its attempt has been asked to leave, or has left by itself; its GPUs follow."""
HOLDS_GPUS = (*AT_WORK, *LEAVING)
"""An attempt is under way."""
PROMISED = (GRANTED, SUSPENDING)
"""What it was given, if anything, it has yet to be launched on."""


class Transition(NamedTuple):
    """A step in the life of a job: from a phase to another, by facts of some kinds.

    None in place of a phase is that the job is not there: not yet, or not any more. `when` says
    what decides where facts of one kind lead to several phases.
    """

    before: JobPhase | None
    after: JobPhase | None
    kinds: tuple[type[Event], ...]
    when: str = ""


_ASKED = (facts.JobCancelRequested, facts.TimeLimitReached)
_ENDED = (facts.JobFinished, facts.JobFailed, facts.JobCancelled)
_RELEASED = (facts.GpusReleased, facts.AttemptLost, facts.LaunchFailed)
_FOUND = (facts.AllocationLearned, facts.GpusTaken)
_AT_ONCE = "outcomes take no time"
TRANSITIONS = (
    Transition(None, WAITING, (facts.JobSubmitted,)),
    Transition(WAITING, LAUNCHING, (facts.AllocationChanged,), "the GPUs are free"),
    Transition(WAITING, GRANTED, (facts.AllocationChanged,), "others have yet to leave the GPUs"),
    Transition(WAITING, RUNNING, (facts.AllocationChanged,), _AT_ONCE),
    Transition(WAITING, None, JOB_ENDS),
    Transition(GRANTED, LAUNCHING, (*_RELEASED, *_FOUND, *_ENDED), "the others have left"),
    Transition(GRANTED, LAUNCHING, (facts.AllocationChanged,), "its other GPUs are free"),
    Transition(GRANTED, WAITING, (facts.AllocationChanged,), "it is given none any more"),
    Transition(GRANTED, None, (facts.JobFailed, facts.JobCancelled)),
    Transition(LAUNCHING, RUNNING, (facts.AttemptStarted,)),
    Transition(LAUNCHING, WAITING, (facts.LaunchFailed, facts.AttemptLost)),
    Transition(LAUNCHING, SUSPENDING, (facts.AllocationChanged,)),
    Transition(LAUNCHING, ENDING, (facts.AttemptEnded, *_ASKED)),
    Transition(RUNNING, SUSPENDING, (facts.AllocationChanged,)),
    Transition(RUNNING, SUSPENDING, (facts.JobSuspended,), "it leaves by itself"),
    Transition(RUNNING, WAITING, (facts.AttemptLost, facts.LaunchFailed)),
    Transition(RUNNING, WAITING, (facts.AllocationChanged,), _AT_ONCE),
    Transition(RUNNING, ENDING, (facts.AttemptEnded, *_ASKED)),
    Transition(RUNNING, None, _ENDED, _AT_ONCE),
    Transition(SUSPENDING, WAITING, _RELEASED),
    Transition(SUSPENDING, LAUNCHING, (facts.GpusReleased,), "it moves to GPUs that are free"),
    Transition(SUSPENDING, GRANTED, (facts.GpusReleased,), "it moves to GPUs that are in use"),
    Transition(SUSPENDING, ENDING, (facts.AttemptEnded, *_ASKED)),
    Transition(ENDING, WAITING, (facts.JobRetried, facts.AttemptLost, facts.LaunchFailed)),
    Transition(ENDING, None, _ENDED),
)
"""All steps there are; `docs/explanation/job-life.md` draws them. Facts may also change nothing."""

NEXT = {
    phase: (phase, *dict.fromkeys(step.after for step in TRANSITIONS if step.before is phase))
    for phase in JobPhase
}
"""The phases in which a job may be after one more step."""

NEVER_US = 1 << 62
"""An instant after all others."""


def sooner(one_us: int | None, other_us: int | None) -> int | None:
    """Return the earlier of two instants; None: never."""
    if one_us is None or other_us is None:
        return other_us if one_us is None else one_us
    return min(one_us, other_us)


@fact
class Place:
    """The servers with an attempt's checkpoints, by rank, and the last step it told."""

    attempt: int
    nodes: tuple[NodeName, ...]
    step: int | None = None


def worked_us(elapsed_us: int, speed: float) -> int:
    """Return the work done in a time, in microseconds at base speed, rounded down."""
    return elapsed_us if speed == 1.0 else int(elapsed_us * speed)


def time_for_us(work_us: int, speed: float) -> int:
    """Return the time in which at least that much work gets done at a speed above 0.

    It is `NEVER_US` at the most: beyond, times are not told apart by a float.
    """
    if speed == 1.0:
        return work_us
    if not work_us / speed < NEVER_US:
        return NEVER_US
    needed = int(work_us / speed)
    while worked_us(needed, speed) < work_us:
        needed += 1
    return needed


def steps_in(elapsed_us: int, rate: float) -> int:
    """Return the whole steps that fit into a time, at a rate in steps per second."""
    return int(rate * (elapsed_us / 1_000_000))


@dataclass(slots=True)
class Queue:
    """A queue: hard GPU quota (None: no bound), weight, GPUs decided to its jobs."""

    name: QueueName
    quota_gpus: int | None = None
    weight: float = 1.0
    users: tuple[str, ...] = ()
    gpus: int = field(default=0, metadata=DERIVED)


@record
class Rejection:
    """The last rejection of a job's proposals, and how many there were in a row.

    `conflicts` are the masks of the GPUs that were not free for it, by server.
    """

    at_us: int
    count: int
    reason: Reason
    conflicts: tuple[tuple[NodeName, int], ...] = ()
    detail: str = ""
    retry_us: int | None = None


@dataclass(slots=True)
class ProposalBook:
    """The part of the state that is about proposals.

    `admitted` are the jobs that the order lets start and that have not started. `reserved` are the
    GPUs that proposals of other jobs may not have. The rest counts proposals since the log began;
    `conflicts` are those of the rejected ones that wanted GPUs which were not free for them.
    """

    admitted: dict[JobId, None] = field(default_factory=dict)
    rejections: dict[JobId, Rejection] = field(default_factory=dict)
    reserved: dict[JobId, tuple[Share, ...]] = field(default_factory=dict)
    approved: int = 0
    rejected: int = 0
    conflicts: int = 0

    @property
    def proposed(self) -> int:
        """How many proposals there were."""
        return self.approved + self.rejected

    @property
    def conflict_rate(self) -> float:
        """The part of all proposals that wanted GPUs which were not free for them."""
        return self.conflicts / self.proposed if self.proposed else 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of any job."""
        return not (self.admitted or self.rejections or self.reserved)

    def rejected_in_a_row(self, job_id: JobId) -> int:
        """Return how often a job was rejected since it was admitted, or last approved."""
        known = self.rejections.get(job_id)
        return 0 if known is None else known.count

    def forget(self, job_id: JobId) -> None:
        """Drop what is known of a job that has started, ended, or may not start now."""
        self.admitted.pop(job_id, None)
        self.rejections.pop(job_id, None)
        self.reserved.pop(job_id, None)


UNTIL_ROUND = Wait(Reason.waiting_for_round)
"""Why a job waits of which nothing is known until a round has looked at it."""
_UNTIL_ROUND = (Reason.waiting_for_round, Reason.node_lost, Reason.displaced)
"""Why jobs left whose GPUs no policy took; that one did says also why they wait since."""

PROPOSING = (Reason.awaiting_proposal, Reason.proposal_rejected)
"""Why jobs wait that the order lets start, where job schedulers propose; never recorded."""


def proposal_wait_of(job_id: JobId, book: ProposalBook) -> Wait | None:
    """Return why a job waits that the order lets start; None: it does not."""
    if job_id not in book.admitted:
        return None
    last = book.rejections.get(job_id)
    if last is None:
        return Wait(Reason.awaiting_proposal)
    detail = " ".join(f"{node}:{mask:#x}" for node, mask in last.conflicts)
    return Wait(Reason.proposal_rejected, detail=detail)


_EXCLUSIVE, _PACKED, _SLICED = Sharing  # members are slow to look up

TURN_PRIORITY_MOST = 10
"""More priorities above or below 0 than these change no turns: 1,024 times as many, or as few."""
TURN_WEIGHT_LEAST, TURN_WEIGHT_MOST = 1e-6, 1e6  # as supervisors take them
_demanding = attrgetter(
    *("gpus", "cpus_milli", "memory_mb", "gpu_types", "shapes", "max_level", "min_speed"),
    *("tolerance", "shape_tolerance", "interference"),
)


@record
class Job:
    """A job that has not ended.

    `allocation` is decided, `held` is what it physically occupies. Service and held time are
    complete up to `since_us`, the instant its present hold began (None: no attempt is under way). A
    job that was displaced holds nothing though its attempt is not over.
    `spec` is what it asks for now: its gang may have been resized since it was submitted.
    `gpus` is the number of GPUs it holds, 0 while others have their turn on them. `work_us` is the
    work done up to `working_since_us`, in microseconds at base speed.

    `launches_failed` counts those in a row, `failures` the attempts that failed by themselves, if
    it has retries, `failed_on` where the last ones did in their first seconds. `held_by` put it on
    hold; if it only backs off, until `back_at_us`. `notes` counts facts of its attempt's journals,
    `notes_on` those of a gang that name the servers whose journal it was, by the first of them;
    `set_aside` is the attempt of which nothing is believed any more.

    `checkpoints` is where they lie, the newest first; None: anywhere, or in a folder of all
    servers. The first `out_of_reach` of them were on servers that are lost when its last attempt
    was launched. `split` is how many GPUs each rank (one a server) had when its checkpoints were
    saved; empty: any will do. `stays_on` has one too large to copy. `counts_from_us` is the instant
    from which guards and turns count what its attempt has run, if not `since_us`. `left_for` is why
    its last attempt left, for which it waits until a round says; `UNTIL_ROUND`: `wait` is of an
    earlier wait, and it left unasked. `tells_training`: an attempt has told its first mini-batch.
    `must_consolidate` says that its placement makes it wait for the fewest servers that could hold
    it. `outcome` is how it ended, for whoever is told of the end: the state has no such jobs.
    `learned` is the last attempt of which it was learnt where it is, `keeps_shares` the last one
    that refused other CPUs or memory. `pace` is what it measures of its mini-batches; with
    `packed_with` it has its turns on the same GPUs at once. `turn_mask` are the GPUs of its server
    that it has in its turn. `moves` is the attempt that takes its GPUs anew with each turn,
    `best_batch` its fastest mini-batch alone on its GPUs. `first_spec` is what it was submitted
    with, if its gang has another size now. `attempt_since_us` is when its attempt began, if not
    `since_us`, as with turns. `off_turn_gpu_us` is for how long others had turns on its GPUs, in
    GPU-microseconds, complete up to `since_us` as service is.
    """

    job_id: JobId
    ordinal: int
    spec: JobSpec
    demand: Demand
    submitted_us: int
    phase: JobPhase = WAITING
    allocation: Allocation = NOTHING
    held: Allocation = NOTHING
    attempt: int = 0
    since_us: int | None = None
    waiting_since_us: int | None = None
    working_since_us: int | None = None
    speed: float = 1.0
    work_us: int = 0
    service_gpu_us: int = 0
    held_us: int = 0
    gpus: int = 0
    first_start_us: int | None = None
    preemptions: int = 0
    migrations: int = 0
    preempted_at_us: tuple[int, ...] = ()
    priority: int = 0
    is_on_hold: bool = False
    blocked_by: int = 0
    end_cause: str = ""
    exit_code: int | None = None
    wait: Wait | None = None
    launches_failed: int = 0
    held_by: str = ""
    back_at_us: int | None = None
    notes: int = 0
    notes_on: tuple[tuple[NodeName, int], ...] = ()
    measured_rate: MeasuredRate | None = None
    checkpoints: tuple[Place, ...] | None = None
    out_of_reach: int = 0
    split: tuple[int, ...] = ()
    set_aside: int = 0
    counts_from_us: int | None = None
    tells_training: bool = False
    failures: int = 0
    must_consolidate: bool = False
    outcome: facts.Outcome | None = None
    learned: int = 0
    keeps_shares: int = 0
    pace: Pace = NO_PACE
    packed_with: tuple[JobId, ...] = ()
    turn_mask: int = 0
    best_batch: BestBatch | None = None
    moves: int = 0
    first_spec: JobSpec | None = None
    attempt_since_us: int | None = None
    off_turn_gpu_us: int = 0
    left_for: Wait | None = None
    failed_on: tuple[Share, ...] = ()
    stays_on: NodeName | None = None

    def service_us(self, now_us: int) -> int:
        """Return attained service in GPU-microseconds (Tiresias, NSDI 2019: GPUs x time)."""
        if self.since_us is None:
            return self.service_gpu_us
        return self.service_gpu_us + self.gpus * (now_us - self.since_us)

    def occupied_us(self, now_us: int) -> int:
        """Return how long it has held resources in all its attempts."""
        return self.held_us + (now_us - self.since_us if self.since_us is not None else 0)

    def done_us(self, now_us: int) -> int:
        """Return the work done, in microseconds at base speed."""
        if self.working_since_us is None:
            return self.work_us
        return self.work_us + worked_us(now_us - self.working_since_us, self.speed)

    @property
    def attempt_began_us(self) -> int | None:
        """When its attempt began, before all its turns; None: none is under way."""
        return self.since_us if self.attempt_since_us is None else self.attempt_since_us

    @property
    def waits_as(self) -> Demand:
        """The class of equal jobs in which it waits."""
        return replace(self.demand, tight=True) if self.must_consolidate else self.demand

    @property
    def turn_weight(self) -> float:
        """Its part of the turns: its own weight, doubled by each priority above 0.

        It is halved by each below it. More than `TURN_PRIORITY_MOST` of either count as so many:
        a job of the background still gets a turn now and then.
        """
        steps = max(-TURN_PRIORITY_MOST, min(TURN_PRIORITY_MOST, self.priority))
        return max(TURN_WEIGHT_LEAST, min(TURN_WEIGHT_MOST, self.spec.weight * 2.0**steps))

    @property
    def submitted_spec(self) -> JobSpec:
        """What was submitted, whatever size its gang has now."""
        return self.spec if self.first_spec is None else self.first_spec

    @property
    def spec_now(self) -> JobSpec:
        """What an attempt is launched with: where it takes turns, at its weight of now."""
        if self.held.sharing is not _SLICED or self.turn_weight == self.spec.weight:
            return self.spec
        return replace(self.spec, weight=self.turn_weight)

    @property
    def takes_turns(self) -> bool:
        """Whether it runs, and has its GPUs in turns with others."""
        return self.phase is RUNNING and self.held.sharing is _SLICED

    @property
    def is_spread(self) -> bool:
        """Whether its attempt is on several servers."""
        return self.held.is_spread

    @property
    def pack_id(self) -> JobId:
        """The same for all that have their turns together: the least of their ids."""
        return min(self.job_id, *self.packed_with) if self.packed_with else self.job_id

    @property
    def awaits_turn(self) -> bool:
        """Whether its attempt is on GPUs on which others have their turn now."""
        return self.held.sharing is _SLICED and not self.gpus

    @property
    def can_move(self) -> bool:
        """Whether its attempt has said that it takes its GPUs anew with each turn."""
        return bool(self.moves) and self.moves == self.attempt

    def takes_turns_on_server_of(self, target: Allocation) -> bool:
        """Say whether it takes turns on as many GPUs of the same server as a target has."""
        mine = self.allocation
        nodes = [[share.node for share in what.shares] for what in (mine, target)]
        same = mine.sharing is _SLICED and target.sharing is _SLICED and mine.gpus == target.gpus
        return same and nodes[0] == nodes[1] and len(nodes[0]) == 1

    def stays_for(self, target: Allocation) -> bool:
        """Say whether it works on these GPUs already, and is only to share them."""
        if target.sharing is not _PACKED or self.allocation.sharing is not _EXCLUSIVE:
            return False
        return self.phase in AT_WORK and self.allocation.shares == target.shares

    @property
    def is_of_one_size(self) -> bool:
        """Whether it keeps the CPUs and memory it has for as long as its attempt lasts."""
        return bool(self.keeps_shares) and (
            self.keeps_shares == self.attempt
            and self.since_us is not None
            and self.allocation == self.held
        )

    @property
    def is_unseen(self) -> bool:
        """Whether its recorded reason is of an earlier wait.

        It is until a round has looked at it, which records no reason that is recorded already.
        """
        left_for = self.left_for
        return self.wait is not None and left_for is not None and left_for.reason in _UNTIL_ROUND

    @property
    def is_eligible(self) -> bool:
        """Whether it wants GPUs and may have them."""
        return self.phase is WAITING and not self.is_on_hold and not self.blocked_by


@fact
class FoldResult:
    """What became of jobs with one fact, for who is told of it: no state.

    The attempts of `launched` began with it, in this order. `departed` is the job that has ended,
    `unblocked` are those that waited for that end, `stranded` those that wanted another one.
    `displaced` lost what was booked for them, since others have it.
    """

    launched: tuple[Job, ...] = ()
    departed: Job | None = None
    unblocked: tuple[JobId, ...] = ()
    stranded: tuple[JobId, ...] = ()
    displaced: tuple[Job, ...] = ()


NO_RESULT = FoldResult()


@dataclass(slots=True)
class Grants:
    """The granted jobs by the servers of their GPUs, so that a release looks at few.

    `numbers` are in the order of the grants. Those that share GPUs can be launched for more reasons
    than a release there, and are looked at each time. A job that is granted no more is forgotten on
    its servers when somebody comes across it.
    """

    numbers: dict[JobId, int] = field(default_factory=dict)
    by_server: dict[NodeName, dict[JobId, None]] = field(default_factory=dict)
    shared: dict[JobId, None] = field(default_factory=dict)
    count: int = 0

    def add(self, job: Job) -> None:
        """Note a job that waits for its GPUs; one that did already keeps its turn."""
        if job.job_id not in self.numbers:
            self.count += 1
            self.numbers[job.job_id] = self.count
        if job.allocation.sharing is not Sharing.exclusive:
            self.shared[job.job_id] = None
        for share in job.allocation.shares:
            self.by_server.setdefault(share.node, {})[job.job_id] = None

    def drop(self, job_id: JobId) -> None:
        """Forget a job that waits for its GPUs no more."""
        self.numbers.pop(job_id, None)

    def on(self, nodes: Iterable[NodeName]) -> list[JobId]:
        """Return the granted jobs on some servers and all that share, oldest first."""
        numbers, found = self.numbers, set[JobId]()
        for jobs in (self.shared, *[self.by_server.get(node, {}) for node in nodes]):
            for job_id in [job_id for job_id in jobs if job_id not in numbers]:
                del jobs[job_id]
            found.update(jobs)
        return sorted(found, key=numbers.__getitem__)


@dataclass(slots=True)
class State:
    """Everything the log says, at sequence number `seq`.

    `durations_us` holds what a trace knows of run times, apart from the jobs, because only oracles
    may see it. `granted` are the jobs whose GPUs others have yet to leave, `grants` are where those
    are. `messages` are, by model, the largest message and the most of all in a mini-batch that
    samples saw, in bytes.
    `targets_status` says why target shares could not be computed last; empty: they were.
    `policy_fault` says how the policy failed in the last round; empty: it did not. `resumable` are
    the jobs whose checkpoints bind them to servers or to a split. `outcomes` says how many jobs
    ended how; which ones, and under which keys jobs were submitted, is no part of the state: it
    grows with history: `PastJobs`. `corrections` are, by model, cells of the table of sensitivity,
    last ones last, `learnt` what its gangs measured. `trials` are by the first of their jobs,
    `verdicts` how they ended. `unseen` are jobs whose recorded reason is of an earlier wait until a
    round has looked at them. `has_live_turns`: on real servers. `proposals`: of job schedulers.
    `gang_turns`: since when servers are on of gangs that wait for their other ones.
    """

    seq: int = 0
    now_us: int = 0
    term: int = 0
    policy: str = ""
    submitted: int = 0
    round_number: int = -1
    rounds_planned: int = 0
    cluster: Cluster = field(default_factory=Cluster)
    jobs: dict[JobId, Job] = field(default_factory=dict)
    durations_us: dict[JobId, int] = field(default_factory=dict)
    queues: dict[QueueName, Queue] = field(default_factory=dict)
    class_waits: dict[Demand, Wait] = field(default_factory=dict)
    reservations: dict[JobId, int] = field(default_factory=dict)
    dependants: dict[JobId, list[JobId]] = field(default_factory=dict)
    granted: dict[JobId, None] = field(default_factory=dict)
    targets: tuple[facts.Target, ...] = ()
    messages: dict[str, tuple[int, int]] = field(default_factory=dict)
    overcommit_gpu_us: int = 0
    overcommit_since_us: int = 0
    targets_status: str = ""
    policy_fault: str = ""
    outcomes: dict[facts.Outcome, int] = field(default_factory=dict)
    corrections: dict[str, tuple[MeasuredCell, ...]] = field(default_factory=dict)
    trials: dict[JobId, Trial] = field(default_factory=dict)
    verdicts: dict[ChangeKey, KnownVerdict] = field(default_factory=dict)
    proposals: ProposalBook = field(default_factory=ProposalBook)
    has_live_turns: bool = False
    gang_turns: dict[JobId, dict[NodeName, int]] = field(default_factory=dict)
    learnt: dict[str, tuple[MeasuredPlacement, ...]] = field(default_factory=dict)
    demands: dict[Demand, Demand] = field(default_factory=dict, metadata=DERIVED)
    demands_by_key: dict[tuple[Any, ...], Demand] = field(default_factory=dict, metadata=DERIVED)
    last_spec: JobSpec | None = field(default=None, compare=False, metadata=DERIVED)
    last_demand: Demand | None = field(default=None, compare=False, metadata=DERIVED)
    resumable: dict[JobId, None] = field(default_factory=dict, metadata=DERIVED)
    unseen: dict[JobId, None] = field(default_factory=dict, compare=False, metadata=DERIVED)
    grants: Grants = field(default_factory=Grants, compare=False, metadata=DERIVED)

    def restored(self) -> None:
        """Rebuild what is derived: who holds which GPUs, and what each queue uses."""
        for job in self.jobs.values():
            if job.checkpoints is not None or job.split:
                self.resumable[job.job_id] = None
            if job.is_unseen and job.since_us is None:
                self.unseen[job.job_id] = None
            job.demand = self.interned(job.demand)
            self._occupy(job)
            self.queue_of(job).gpus += job.allocation.gpus
        for job_id in self.granted:
            self.grants.add(self.jobs[job_id])
        self.cluster.freed.update(dict.fromkeys(self.grants.by_server))
        firsts = [job for job in self.jobs.values() if job.pack_id == job.job_id]
        self.cluster.holding.overcommit += sum(self.surplus(self.pack_of(job)) for job in firsts)

    def _occupy(self, job: Job) -> None:
        """Take again what a job was given and holds."""
        cluster = self.cluster
        cluster.decide(cluster.deciding.join(job.ordinal, job.job_id, job.allocation))
        cluster.hold(cluster.holding.join(job.ordinal, job.job_id, job.held))

    def pack_of(self, job: Job) -> list[Job]:
        """Return a job and those that it has its turns together with."""
        return [job, *(self.jobs[name] for name in job.packed_with)]

    @staticmethod
    def surplus(pack: Iterable[Job]) -> int:
        """Return how many GPUs jobs of a pack hold that another of them holds as well."""
        surplus = taken = 0
        for job in pack:
            surplus += (job.turn_mask & taken).bit_count()
            taken |= job.turn_mask
        return surplus

    def overcommit_us(self, at_us: int) -> int:
        """Return the GPU time for which more than one job held a GPU, up to an instant."""
        since_us = max(0, at_us - self.overcommit_since_us)
        return self.overcommit_gpu_us + self.cluster.holding.overcommit * since_us

    def demand_of(self, spec: JobSpec) -> Demand:
        """Return a job's demand under today's quotas, and what was learnt of its model."""
        demand = self.demand_as_said(spec)
        if spec.min_speed is None or spec.model not in self.learnt:
            return demand
        return self.interned(bounded(demand, spec, self.learnt[spec.model]))

    def demand_as_said(self, spec: JobSpec) -> Demand:
        """Return a job's demand under today's quotas, one object for equal ones."""
        if spec is self.last_spec and self.last_demand is not None:
            return self.last_demand
        queue = self.queues.get(spec.queue)
        bounded = queue is not None and queue.quota_gpus is not None
        key = (spec.queue if bounded else QueueName(""), *_demanding(spec))
        demand = self.demands_by_key.get(key)
        if demand is None:
            demand = self.interned(spec.demand(key[0]))
            self.demands_by_key[key] = demand
        self.last_spec, self.last_demand = spec, demand
        return demand

    def interned(self, demand: Demand) -> Demand:
        """Return the one object that stands for all equal demands."""
        return self.demands.setdefault(demand, demand)

    def queue_of(self, job: Job) -> Queue:
        """Return the queue of a job, which exists from its first use on."""
        queue = self.queues.get(job.spec.queue)
        if queue is None:
            queue = self.queues[job.spec.queue] = Queue(job.spec.queue)
        return queue


Rule = Callable[[State, Any], FoldResult | None]
"""Folds a fact of one kind; returns what became of jobs, if that is more than the fact says."""


DIGEST_BYTES = 32


def state_digest(state: State) -> str:
    """Return the digest that a simulation prints, and that a replay must find again."""
    return blake2b(encode_record(state), digest_size=DIGEST_BYTES).hexdigest()
