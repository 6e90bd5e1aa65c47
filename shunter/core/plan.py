"""A plan: the changes a policy wants, why, and what held back the jobs that were tried."""

from typing import ClassVar

from shunter.events import (
    NOTHING,
    Allocation,
    Batch,
    Because,
    ChangeKey,
    ClassWait,
    JobId,
    Share,
    TrialKind,
    TrialReason,
    Wait,
    fact,
)


@fact
class Start:
    """Run a waiting job there."""

    job_id: JobId
    allocation: Allocation
    because: Because


@fact
class Suspend:
    """Take everything from a job and let it wait."""

    job_id: JobId
    because: Because
    allocation: ClassVar[Allocation] = NOTHING


@fact
class Move:
    """Suspend a job and resume it elsewhere."""

    job_id: JobId
    allocation: Allocation
    because: Because


@fact
class Pack:
    """Let a job that has its GPUs to itself stay there and share them from now on."""

    job_id: JobId
    allocation: Allocation
    because: Because


@fact
class Reshape:
    """Let a job keep its GPUs, with other CPUs or memory beside them.

    Those that stand together in a plan are carried out together: what one gives up, another gets.
    """

    job_id: JobId
    allocation: Allocation
    because: Because


@fact
class Rehome:
    """Let a job that takes turns have other GPUs of its server for its own."""

    job_id: JobId
    allocation: Allocation
    because: Because


@fact
class Resize:
    """Let an elastic job have another number of GPUs, those there, all of one server.

    One that runs leaves at a mini-batch boundary and goes on there from its checkpoint; one that
    waits starts there. It wants as many from then on, until it is resized anew.
    """

    job_id: JobId
    allocation: Allocation
    because: Because


Change = Start | Suspend | Move | Pack | Reshape | Rehome | Resize


@fact
class Try:
    """Try a change, until a later plan judges it by what its jobs have measured.

    `pack`: a job has its turns together with its partner from now on, on the same GPUs at once.
    `migrate`: it is moved by this plan. `sum_before` is in millionths; `batches` are the
    mini-batches of its jobs as things are, `key` what the verdict is remembered by.
    """

    job_id: JobId
    kind: TrialKind
    partners: tuple[JobId, ...]
    key: ChangeKey
    sum_before: int
    batches: tuple[Batch, ...]


@fact
class Judge:
    """End the trial of a job, or for want of need what was kept of one."""

    job_id: JobId
    reason: TrialReason
    sum_after: int
    batches: tuple[Batch, ...]


@fact
class Proposal:
    """Candidate placements of a waiting gang, the best first.

    The approver starts the job on the first of them that is wholly free for it, or nowhere.
    `version` is the number of the last event in the view in which they were found. `gives` is what
    running jobs give up of CPUs and memory, in this order, where a candidate lacks some.
    """

    job_id: JobId
    version: int
    candidates: tuple[Allocation, ...]
    because: Because
    gives: tuple[Reshape, ...] = ()


@fact
class Reservation:
    """A promise to a waiting job: its GPUs are kept free from `start_us` on.

    `shares` are the very GPUs, where nobody else's proposal may have them.
    """

    job_id: JobId
    start_us: int
    gpus: int
    shares: tuple[Share, ...] = ()


@fact
class Plan:
    """A change set against the view, in the order in which it is to be carried out.

    Suspensions come before the starts that need their GPUs, and the first of those who share
    GPUs is told so (started there packed, or `Pack`) before the others come. `waits` names the
    classes of equal waiting jobs whose reason is new (None: the class waits no more),
    `job_waits` single jobs, of policies that have no classes. `consolidated` are waiting jobs
    that are in the class of those that need the fewest servers and were not when a round was
    recorded last, `spread` those that have left it. Of `trials`, the verdicts come before the
    changes, and what is tried begins after them. `proposals` come last; `admitted` are jobs that
    may be proposed from now on, and `dismissed` those that no longer may. `fault` is never a
    policy's own to say (fault_barrier.py). `is_drafted` says that every change was made on a
    draft, which lets nothing be made that is not allowed: the approver has nothing to find. It is
    believed of policies that are our own code throughout.
    """

    changes: tuple[Change, ...] = ()
    waits: tuple[ClassWait, ...] = ()
    job_waits: tuple[tuple[JobId, Wait], ...] = ()
    reservations: tuple[Reservation, ...] = ()
    fault: str = ""
    consolidated: tuple[JobId, ...] = ()
    spread: tuple[JobId, ...] = ()
    is_drafted: bool = False
    trials: tuple[Try | Judge, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    admitted: tuple[JobId, ...] = ()
    dismissed: tuple[JobId, ...] = ()


EMPTY_PLAN = Plan()
