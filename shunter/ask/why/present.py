"""What is said of a job that waits: its rank, who holds what it needs, what is free.

`rank_now` computes these records; sentences and documents are made from them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shunter.ask.words import first_of, gpus_in_words
from shunter.core import Cluster
from shunter.counting import counted
from shunter.events import Event, GpuType, JobId, NodeName, Reason, Resources, Wait, facts


@dataclass(frozen=True)
class Grant:
    """How many of the free GPUs of a type a job is given."""

    job_id: JobId
    gpu_type: GpuType
    gpus: int


@dataclass(frozen=True)
class NextPlan:
    """When the next plan is, and the jobs that it gives GPUs that are free now.

    Where job schedulers propose places it gives none: it lets the `admitted` be placed.
    """

    at_us: int
    grants: tuple[Grant, ...] = ()
    admitted: tuple[JobId, ...] = ()


def next_plan_of(at_us: int, decided: Iterable[Event], cluster: Cluster) -> NextPlan:
    """Return what a plan does with free GPUs.

    Args:
        at_us: when it is made.
        decided: what it decides.
        cluster: the servers as they are before it.
    """
    found: list[Grant] = []
    admitted: tuple[JobId, ...] = ()
    for fact in decided:
        if isinstance(fact, facts.RoundPlanned):
            admitted = fact.admitted
        if not isinstance(fact, facts.AllocationChanged):
            continue
        gpus: dict[GpuType, int] = {}
        for share in fact.allocation.shares:
            server = cluster.servers[share.node]
            gpu_type = server.configuration.gpu_type
            free = (share.gpu_mask & server.offered).bit_count()
            gpus[gpu_type] = gpus.get(gpu_type, 0) + free
        found += [Grant(fact.job_id, each, count) for each, count in gpus.items() if count]
    return NextPlan(at_us, tuple(found), admitted)


_SERVERS_NAMED = 4


@dataclass(frozen=True)
class Beside:
    """A job's need on the servers of one GPU type, and what these have for it.

    The servers are those with GPUs for it, the roomiest first. They are counted as if jobs that it
    may make leave had left (`counts_behind`: some would), and as if others had given up what they
    have above their shares (`counts_above`: some would).
    """

    needed: Resources
    servers: tuple[tuple[NodeName, Resources], ...]
    counts_behind: bool = False
    counts_above: bool = False

    def words(self) -> str:
        """Say what is needed and where how much there is."""
        gpus, needed = self.needed.gpus, self._named(self.needed)
        there = [
            f"{node} has {self._named(has)}"
            + (f" beside {gpus_in_words(has.gpus)}" if gpus else "")
            for node, has in self.servers
        ]
        some = first_of(there, _SERVERS_NAMED) or "no server is up"
        each = f" ({self._named(self._each)} each)" if gpus > 1 else ""
        which = f" that it needs beside {'it' if gpus == 1 else 'them'}" if gpus else ""
        return f"the {needed}{which}{each}: {some}{self._counted()}"

    def document(self) -> dict[str, object]:
        """Return the numbers by name."""
        return {
            "needed": _amounts(self.needed),
            "servers": [{"node": node, **_amounts(has)} for node, has in self.servers],
            "counts_jobs_behind": self.counts_behind,
            "counts_shares_above": self.counts_above,
        }

    @property
    def _each(self) -> Resources:
        gpus = self.needed.gpus
        return Resources(1, self.needed.cpus_milli // gpus, self.needed.memory_mb // gpus)

    def _named(self, has: Resources) -> str:
        """Return amounts of what is needed at all."""
        parts = []
        if self.needed.cpus_milli:
            parts.append(counted(has.cpus_milli / 1000, "CPU"))
        if self.needed.memory_mb:
            parts.append(f"{has.memory_mb} MB")
        return " and ".join(parts) or "nothing"

    def _counted(self) -> str:
        counted = [
            words
            for is_so, words in (
                (self.counts_behind, "jobs that it may preempt as gone"),
                (self.counts_above, "others at their shares"),
            )
            if is_so
        ]
        return f" (counting {' and '.join(counted)})" if counted else ""


def _amounts(has: Resources) -> dict[str, object]:
    return {"gpus": has.gpus, "cpus": has.cpus_milli / 1000, "memory_mb": has.memory_mb}


NAMED = 3

_QUOTA = Reason.quota


@dataclass(frozen=True)
class Group:
    """Some jobs: how many, their GPUs, and the work they have left.

    `unknown` are those of them whose work nobody knows; it is not in `left_gpu_us`. Of those that
    are `limited` it is what their time limits leave them, at most.
    """

    jobs: int = 0
    gpus: int = 0
    left_gpu_us: int = 0
    unknown: int = 0
    limited: int = 0


@dataclass(frozen=True)
class Place:
    """Where a waiting job stands: position, score, and who ranks before it.

    `ahead` are the first that wait before it; `waiting_ahead` are all of those, `running_ahead` the
    jobs before it that have GPUs and that it cannot make leave.
    """

    position: int
    waiting: int
    score: tuple[int, ...]
    ahead: tuple[JobId, ...]
    waiting_ahead: Group = Group()
    running_ahead: Group = Group()


@dataclass(frozen=True)
class Room:
    """What a job finds: `free`, and `behind`, held by jobs it may make leave.

    `staying` are the keys of those there that it cannot make leave, `holders` them to name:
    the last in rank first. `kept_for` are jobs before it that the order lets start, where job
    schedulers have yet to propose them: `kept` is what they need. Of a quota that is not free; of
    GPUs nobody knows yet which these will be, so that is in `free`.
    """

    free: int = 0
    behind: int = 0
    staying: tuple[int, ...] = ()
    holders: tuple[JobId, ...] = ()
    kept: int = 0
    kept_for: tuple[JobId, ...] = ()


@dataclass(slots=True)
class Present:
    """How a waiting job stands at `at_us`, right after the event `seq`.

    It needs GPUs, what goes `beside` them, and its queue's quota where there is one. `wait` is what
    planning says of the job's class, and `starts_us` when a plan starts the job if nothing else
    happens: the next one, or the one after where that finds nothing to do, which is `next_plan`.
    `promise_basis` says what promises of GPUs count on, `outlasts` that one keeps it from GPUs
    that are free.
    """

    seq: int
    at_us: int
    needed: int = 0
    gpus: Room = field(default_factory=Room)
    beside: Beside | None = None
    quota: Room | None = None
    place: Place | None = None
    wait: Wait | None = None
    starts_us: int | None = None
    next_plan: NextPlan | None = None
    pinned: tuple[tuple[JobId, int], ...] = ()
    starves_us: int | None = None
    promise_basis: str = ""
    outlasts: str = ""
    problem: str = ""

    def room(self, reason: Reason) -> Room:
        """Return the room of what is short for a reason: of the quota, else of GPUs."""
        return self.quota if reason is _QUOTA and self.quota is not None else self.gpus

    def missing(self, reason: Reason) -> int:
        """Return how many GPUs more than it finds it needs at least."""
        room = self.room(reason)
        return max(0, self.needed - room.free - room.behind)


@dataclass(slots=True)
class Planned:
    """What planning again said: the reason, and what it does with the job.

    `seq` is the last event before it; `problem` says why the policy could not be asked.
    `waits` says that the job waited there; `starts` and `leaves` that the plan starts it, or takes
    its GPUs away.
    """

    seq: int = 0
    at_us: int = 0
    wait: Wait | None = None
    waits: bool = False
    starts: bool = False
    leaves: bool = False
    problem: str = ""
