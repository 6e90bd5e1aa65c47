"""Facts about what was decided, and why."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from shunter.events.facts import gangs
from shunter.events.facts.gangs import GangFact
from shunter.events.values.allocation import Allocation, Share
from shunter.events.values.causes import DISPLACED, HELD, NODE_LOST, PROPOSED, RESIZED
from shunter.events.values.fact import event, value
from shunter.events.values.fact_class import COMMANDED, DECIDED, DERIVED, OBSERVED, KindClass
from shunter.events.values.ids import GpuType, JobId
from shunter.events.values.reasons import Because, ClassWait, Reason, Wait
from shunter.events.values.trials import Batch, ChangeKey

NO_SUCH_JOB = "there is no such job"
"""Why a change is refused to a job that has ended, or never was."""


class Trigger(StrEnum):
    """What made the scheduler plan."""

    round = "round"
    event = "event"
    wake = "wake"


@event
class RoundPlanned:
    """The policy was asked; this is how it left the queue, changed or not.

    `skipped` rounds before it could not have decided anything; `seen` is the sequence number
    of the last event the policy saw; `waits` are the classes whose reason changed. `fault` says
    where and how the policy itself failed, if it did. `consolidated` are waiting jobs that from
    now on wait for the fewest servers that could hold them, `spread` those that no longer do.
    Where job schedulers propose, `admitted` are the jobs that the order lets start from now on if
    they find a place, `dismissed` those that it no longer does.
    """

    at_us: int
    number: int
    skipped: int
    seen: int
    trigger: Trigger = Trigger.round
    waits: tuple[ClassWait, ...] = ()
    fault: str = ""
    consolidated: tuple[JobId, ...] = ()
    spread: tuple[JobId, ...] = ()
    admitted: tuple[JobId, ...] = ()
    dismissed: tuple[JobId, ...] = ()


@event
class PolicySetAside:
    """The policy did not answer in time, or its process ended: it is not asked again.

    `cause` says at what it was and what happened; `told` is the sequence number of the last event
    it was told of. Jobs run on, and none is started until a scheduler is started anew.
    """

    at_us: int
    policy: str
    cause: str
    told: int


@value
class Target:
    """The share of time a job (or pair) should get of a GPU type, to 1e-9."""

    jobs: tuple[JobId, ...]
    gpu_type: GpuType
    fraction: float


@event
class TargetsSet:
    """The answer of a policy's expensive part, which replay need not solve again."""

    at_us: int
    targets: tuple[Target, ...]
    solver: str = ""
    status: str = "ok"


@value
class Size:
    """How many CPUs and how much memory go with each GPU of a job."""

    job_id: JobId
    cpus_milli: int
    memory_mb: int


@event
class SizesSet:
    """The answer of the programs that size jobs, which replay need not solve again.

    `sizes` are those of jobs that start in the round it stands before, and of running ones that
    get others than they have. `speed` is the sum of the speeds of all jobs with GPUs that run
    then, `bound` what that could be at most if all servers of a GPU type were one, `gap` what of
    it the search left open when it ended. `status` says why sizes are not those of the programs.
    """

    at_us: int
    sizes: tuple[Size, ...]
    speed: float
    bound: float
    gap: float = 0.0
    status: str = "ok"


SolvedFact: TypeAlias = TargetsSet | SizesSet
SOLVED = (TargetsSet, SizesSet)
"""What stands before the round that goes by it: answers that replay need not solve again."""


@event
class AllocationChanged:
    """The scheduler's intent for one job: run exactly there, or (with nothing) stop.

    `instant` says that the outcome took no time and is part of this fact: the job was launched
    (or suspended and its GPUs released) at this very instant. Only a simulation says so.
    """

    at_us: int
    job_id: JobId
    allocation: Allocation
    because: Because
    instant: bool = False


_NO_PREEMPTION = frozenset(each.rule for each in (HELD, NODE_LOST, DISPLACED, RESIZED))


def is_preemption(event: AllocationChanged) -> bool:
    """Say whether a policy takes all GPUs of the job away.

    That is a preemption if it runs and leaves. It is none where a person has it leave, a server is
    lost, others turn out to have its GPUs, or it is to go on with another number of them; nor is a
    move to other GPUs.
    """
    return not event.allocation.shares and event.because.rule not in _NO_PREEMPTION


@event
class JobReshaped:
    """A running job keeps its GPUs and gets other CPUs or memory beside them.

    `allocation` is the whole of what it has from now on.
    """

    at_us: int
    job_id: JobId
    allocation: Allocation
    because: Because


@event
class WaitReasonChanged:
    """One job waits for another reason than before (policies without classes)."""

    at_us: int
    job_id: JobId
    wait: Wait


@event
class PlanRejected:
    """The approver refused one change of a plan; the rest of the plan went ahead.

    What a plan wants for a job that does not exist is refused with the detail of that name.
    """

    at_us: int
    job_id: JobId
    reason: Reason
    rule: str
    detail: str = ""


@event
class ReservationSet:
    """GPUs are kept for a waiting job from `start_us` on; None withdraws the promise.

    `shares` are the very GPUs, where no other job's proposal may have them from now on.
    """

    at_us: int
    job_id: JobId
    start_us: int | None
    gpus: int = 0
    shares: tuple[Share, ...] = ()


@event
class TrialStarted:
    """A change is being tried and will be judged by what it measures.

    `pack`: the job has its turns on the same GPUs at once with its partners, from now on until the
    trial is reverted or one of them leaves. `migrate`: it was moved in this round. `baseline` is
    the sum of the normalised rates as things were, `batches` the mini-batches that its jobs
    measured then; `key` is what the verdict is remembered by.
    """

    at_us: int
    job_id: JobId
    trial: str
    partners: tuple[JobId, ...] = ()
    baseline: float = 0.0
    batches: tuple[Batch, ...] = ()
    key: ChangeKey | None = None


@event
class TrialKept:
    """A trial did not worse than before, and what it changed stays.

    `measured` is the sum of the normalised rates in it, by the mini-batches in `batches`; `reason`
    says whether it gained, or only less than it cost (`TrialReason`).
    """

    at_us: int
    job_id: JobId
    trial: str
    measured: float = 0.0
    reason: str = ""
    batches: tuple[Batch, ...] = ()


@event
class TrialReverted:
    """What was tried is undone: it did worse than before, or nothing was measured.

    So is what was kept once there is `room` for everybody alone. The rest is as in TrialKept.
    """

    at_us: int
    job_id: JobId
    trial: str
    measured: float = 0.0
    reason: str = ""
    batches: tuple[Batch, ...] = ()


TrialFact: TypeAlias = TrialStarted | TrialKept | TrialReverted
TRIALS = (TrialStarted, TrialKept, TrialReverted)
"""What is tried of jobs, and how it ended."""

DecisionEvent: TypeAlias = (
    RoundPlanned
    | TargetsSet
    | SizesSet
    | AllocationChanged
    | JobReshaped
    | WaitReasonChanged
    | PlanRejected
    | PolicySetAside
    | GangFact
    | ReservationSet
    | TrialStarted
    | TrialKept
    | TrialReverted
)

CLASSES: Mapping[type, KindClass] = {
    RoundPlanned: KindClass(DECIDED),
    TargetsSet: KindClass(DECIDED),
    SizesSet: KindClass(DECIDED),
    AllocationChanged: KindClass(
        DECIDED,
        "because",
        {
            **dict.fromkeys((NODE_LOST, DISPLACED, RESIZED, PROPOSED), DERIVED),
            HELD: COMMANDED,
        },
    ),
    JobReshaped: KindClass(DECIDED),
    WaitReasonChanged: KindClass(DECIDED),
    PlanRejected: KindClass(DECIDED),
    PolicySetAside: KindClass(OBSERVED),
    **gangs.CLASSES,
    ReservationSet: KindClass(DECIDED),
    TrialStarted: KindClass(DECIDED),
    TrialKept: KindClass(DECIDED),
    TrialReverted: KindClass(DECIDED),
}
"""Where facts of plans come from."""
