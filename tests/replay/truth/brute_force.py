"""What is true of a waiting job, worked out from the folded state in the plainest way.

Nothing here asks the planner, the ranking, the placement or `why`. Free GPUs are those of servers
in service that no job was given, counted one by one; a place exists if one of all ways to divide a
gang over servers is one; who ranks before whom is the literal rank of the policy, where that is
short.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from shunter.ask import fold_events
from shunter.core import NO_GUARDS, Health, Job, JobPhase, Server, State, View
from shunter.events import (
    HELD,
    NODE_LOST,
    SOLVED,
    TRIALS,
    Allocation,
    AllocationChanged,
    Event,
    GangApproved,
    GangProposed,
    GangRejected,
    JobId,
    JobReshaped,
    Level,
    NodeName,
    PlanRejected,
    ReservationSet,
    RoundPlanned,
    SuspendMode,
    WaitReasonChanged,
)
from tests.replay.truth.mixed_runs import (
    BOUNDS_GPU_S,
    MIN_RUNTIME_S,
    PREEMPTIONS_MOST,
    SKEWED,
    is_sized,
    policy_of,
)
from tests.stepping import ranks

__all__ = ["HOUR_US", "RANKS", "SERVED", "Truth", "decision_around", "gpus_of"]

Gpu = tuple[NodeName, int]
HOUR_US = 3_600_000_000

RANKS: dict[str, ranks.Rank] = {
    "drf": ranks.by_dominant_share,
    "fifo": ranks.by_submission,
    "fifo_backfill": ranks.by_submission,
    "fifo_easy": ranks.by_submission,
    "ftf": ranks.by_unfairness,
    "las": ranks.by_service([bound * 1_000_000 for bound in BOUNDS_GPU_S]),
    "shortest_gpu": ranks.by_remaining_service,
    "sjf": ranks.by_duration,
    "smallest": ranks.by_size,
    "srtf": ranks.by_remaining_time,
    "tetris": ranks.by_remaining_volume,
}
SERVED = ("fifo", "fifo_backfill", "fifo_easy", "sjf")
"""Policies that make nobody leave."""

_PARTS = (
    *(AllocationChanged, JobReshaped, PlanRejected, ReservationSet, WaitReasonChanged),
    *(GangProposed, GangApproved, GangRejected, *TRIALS),
)


def decision_around(events: Sequence[Event], seq: int) -> tuple[int, int]:
    """Return the first and the last event of the decision that the one with a number is part of."""
    begin = seq
    while begin > 1 and _is_part(events[begin - 1]):
        begin -= 1
    if isinstance(events[begin - 1], SOLVED):
        begin += 1
    if begin > len(events) or not isinstance(events[begin - 1], RoundPlanned):
        return seq, seq
    end = begin
    while end < len(events) and _is_part(events[end]):
        end += 1
    return begin, end


def _is_part(event: Event) -> bool:
    return isinstance(event, _PARTS) and getattr(event, "because", None) not in (HELD, NODE_LOST)


@dataclass
class Truth:
    """What is true after some events of a run, at an instant not before the last of them."""

    events: Sequence[Event]
    run: str
    at_us: int

    @property
    def name(self) -> str:
        """The policy of the run."""
        return policy_of(self.run)

    @cached_property
    def state(self) -> State:
        """The fold of the events."""
        state = State()
        fold_events(state, self.events)
        return state

    @property
    def jobs(self) -> dict[JobId, Job]:
        """The jobs that have not ended."""
        return self.state.jobs

    def servers(self, types: Sequence[str] = ()) -> list[Server]:
        """Return the servers of some GPU types, in service or not."""
        return [
            server
            for server in self.state.cluster.servers.values()
            if server.health is not Health.removed
            and (not types or server.configuration.gpu_type in types)
        ]

    def in_service(self, types: Sequence[str] = ()) -> dict[str, set[Gpu]]:
        """Return the GPUs that take jobs, by type."""
        found: dict[str, set[Gpu]] = {}
        for server in self.servers(types):
            gpus = found.setdefault(server.configuration.gpu_type, set())
            if server.health is Health.up and not server.drained:
                gpus |= {
                    (server.name, gpu)
                    for gpu in range(server.configuration.gpus)
                    if not (server.quarantined | server.taken) >> gpu & 1
                }
        return found

    def free(self, types: Sequence[str] = (), gone: Sequence[Job] = ()) -> dict[str, set[Gpu]]:
        """Return the GPUs that no job was given, by type, as if some jobs had gone."""
        names = {job.job_id for job in gone}
        given = {
            gpu
            for job in self.jobs.values()
            if job.job_id not in names
            for gpu in gpus_of(job.allocation)
        }
        return {name: gpus - given for name, gpus in self.in_service(types).items()}

    def most_free(self, types: Sequence[str] = ()) -> int:
        """Return the most GPUs of one type that are free."""
        return max(map(len, self.free(types).values()), default=0)

    def most_in_service(self, types: Sequence[str] = ()) -> int:
        """Return the most GPUs of one type that take jobs."""
        return max(map(len, self.in_service(types).values()), default=0)

    def queue_gpus(self, queue: str) -> int:
        """Return how many GPUs the jobs of a queue were given."""
        return sum(job.allocation.gpus for job in self.jobs.values() if job.spec.queue == queue)

    def came_us(self, job_id: JobId) -> int:
        """Return when a job came into its phase, going through all events one by one.

        GPUs that it waits for were granted with the last decision about it, also where it has left
        others since. It has waited all along if it lost those again before it began.
        """
        state, phase, at_us, waits_us, granted_us = State(), "", 0, 0, 0
        for event in self.events:
            fold_events(state, [event])
            now = state.jobs.get(job_id)
            grants = isinstance(event, AllocationChanged) and event.job_id == job_id
            is_granted = now is not None and now.phase is JobPhase.granted
            granted_us = event.at_us if grants else granted_us
            if now is None or not (now.phase != phase or (grants and is_granted)):
                continue
            if phase == JobPhase.granted and now.phase is JobPhase.waiting:
                phase, at_us = now.phase, waits_us
                continue
            phase, at_us = now.phase, granted_us if is_granted else event.at_us
            waits_us = event.at_us if phase == JobPhase.waiting else waits_us
        return at_us

    def holders(self) -> list[Job]:
        """Return the jobs that were given GPUs and are not about to end."""
        return [
            job
            for job in self.jobs.values()
            if job.allocation.shares and not job.end_cause and job.exit_code is None
        ]

    def waiting(self) -> list[Job]:
        """Return the jobs that want GPUs and may have them."""
        return [
            job
            for job in self.jobs.values()
            if job.phase is JobPhase.waiting and not job.is_on_hold and not job.blocked_by
        ]

    def key(self, job: Job) -> tuple[bool, int, int, int]:
        """Return what orders jobs under a policy whose rank is known here."""
        view = View(self.state, NO_GUARDS, oracle=True, all_reasons=False)
        view.open()
        view.now_us = self.at_us
        return (not self.is_pinned(job), -job.priority, RANKS[self.name](job, view), job.ordinal)

    def is_pinned(self, job: Job) -> bool:
        """Say whether a guard keeps the GPUs of a job for it: nobody is ranked before it."""
        if not job.allocation.shares:
            return False
        young_us = self.at_us - MIN_RUNTIME_S * 1_000_000
        runs_from_us = job.counts_from_us or job.attempt_began_us or 0
        recent = [each for each in job.preempted_at_us if each > self.at_us - HOUR_US]
        return (
            job.spec.suspend_mode is SuspendMode.never
            or job.phase not in (JobPhase.running, JobPhase.ending)
            or runs_from_us > young_us
            or len(recent) >= PREEMPTIONS_MOST
        )

    def fits(self, job: Job, gone: Sequence[Job] = (), *, with_beside: bool = True) -> bool:
        """Say whether there is a place for a job once some jobs have gone."""
        demand = job.demand
        free = self.free(demand.gpu_types, gone)
        beside = {server.name: self._cpus_free(server, gone) for server in self.servers()}
        racks = {server.name: server.configuration.rack for server in self.servers()}
        for gpu_type, gpus in free.items():
            counts = {node: len([each for each in gpus if each[0] == node]) for node, _ in gpus}
            for split in _splits(demand.gpus, counts):
                if self.is_skewed(job) and len(split) > self._fewest(gpu_type, demand.gpus):
                    continue
                if demand.max_level is Level.server and len(split) > 1:
                    continue
                if demand.max_level is Level.rack and len({racks[node] for node in split}) > 1:
                    continue
                needs = {node: self._cpus_of(job, node, count) for node, count in split.items()}
                if not with_beside or all(beside[node] >= need for node, need in needs.items()):
                    return True
        return False

    def is_skewed(self, job: Job) -> bool:
        """Say whether the placement keeps the job's gang together, for its model's sake."""
        return self.run.endswith("skew") and job.spec.model in SKEWED and job.demand.gpus > 1

    def _fewest(self, gpu_type: str, gpus: int) -> int:
        """Return how few servers of a type can hold a gang if nobody else is there."""
        counts = [len([each for each in self.in_service()[gpu_type] if each[0] == server.name])
                  for server in self.servers([gpu_type])]  # fmt: skip
        counts.sort(reverse=True)
        return next(n for n in range(1, len(counts) + 1) if sum(counts[:n]) >= gpus)

    def _cpus_of(self, job: Job, node: NodeName, gpus: int) -> int:
        """Return the CPUs that a job needs beside some GPUs of a server.

        Sized, it needs the part of the server that is theirs, and what it asks for if that is more.
        """
        asked = -(-job.demand.cpus_milli * gpus // job.demand.gpus)
        if not is_sized(self.run):
            return asked
        made_of = self.state.cluster.servers[node].configuration
        return max(asked, made_of.cpus_milli * gpus // made_of.gpus)

    def _cpus_free(self, server: Server, gone: Sequence[Job]) -> int:
        names = {job.job_id for job in gone}
        return server.configuration.cpus_milli - sum(
            self._cpus_of(job, server.name, share.gpus) if is_sized(self.run) else share.cpus_milli
            for job in self.jobs.values()
            if job.job_id not in names
            for share in job.allocation.shares
            if share.node == server.name
        )


def gpus_of(allocation: Allocation) -> set[Gpu]:
    """Return the GPUs of an allocation, one by one."""
    return {
        (share.node, gpu)
        for share in allocation.shares
        for gpu in range(share.gpu_mask.bit_length())
        if share.gpu_mask >> gpu & 1
    }


def _splits(gpus: int, free: dict[NodeName, int]) -> Iterator[dict[NodeName, int]]:
    """Yield all ways to divide a gang over servers with so many free GPUs."""
    names = sorted(free)
    for counts in product(*(range(free[name] + 1) for name in names)):
        if sum(counts) == gpus:
            yield {name: count for name, count in zip(names, counts, strict=True) if count}
