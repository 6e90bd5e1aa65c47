"""Records with a default for every field, and whole runs in one call: where tests begin.

Instants are microseconds and usually tiny: a job that lasts 20 lasts 20 microseconds. Nothing in
the core knows what a second is, and small worlds can be stepped through instant by instant.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, TypeVar

import pytest

from shunter.backends.simulated import (
    NO_FAILURES,
    NO_SAMPLES,
    NO_SLICING,
    PLAIN_LEASE,
    Costs,
    Failures,
    Lease,
    Samples,
    SimulatedBackend,
    Slicing,
)
from shunter.core import NO_GUARDS, Guards, Observers, Policy, Scheduler, State, run_rounds
from shunter.core.planning import PLACEMENTS, Decentralised, OnFault, RoundRules
from shunter.core.ranking import RankedPolicy
from shunter.core.speeds import SpeedModel, TableCheck
from shunter.events import (
    NOTHING,
    Allocation,
    AllocationChanged,
    AttemptStarted,
    Because,
    ConfigurationSet,
    Event,
    GpuType,
    JobFinished,
    JobId,
    JobSpec,
    JobSubmitted,
    MemoryPastJobs,
    NodeAdded,
    NodeName,
    Outcome as JobOutcome,
    QueueName,
    QuotaChanged,
    RoundPlanned,
    SchedulerStarted,
    Share,
    Sharing,
    Trigger,
    UserName,
)
from shunter.policies import fifo, las, shortest
from shunter.workloads import JobEnd, TraceJob

T = TypeVar("T")

needs_highs = pytest.mark.skipif(
    find_spec("highspy") is None, reason="needs HiGHS: the extra `solvers`"
)

BECAUSE = Because("test")
MINUTE_US = 60_000_000


def job_id(name: str | int = "j0") -> JobId:
    return JobId(f"j{name}" if isinstance(name, int) else name)


def job_spec(gpus: int = 1, **fields: Any) -> JobSpec:
    """Return a specification; strings and lists stand in for ids and tuples."""
    if "queue" in fields:
        fields["queue"] = QueueName(fields["queue"])
    if "user" in fields:
        fields["user"] = UserName(fields["user"])
    if "gpu_types" in fields:
        fields["gpu_types"] = tuple(GpuType(name) for name in fields["gpu_types"])
    return JobSpec(gpus, **fields)


def trace_job(
    name: str | int = 0,
    gpus: int = 1,
    *,
    at: int = 0,
    lasts: int = 10,
    ends: str = "finished",
    **fields: Any,
) -> TraceJob:
    """Return a job of a trace."""
    return TraceJob(job_id(name), at, job_spec(gpus, **fields), lasts, JobEnd(ends))


def configuration(gpus: int = 4, **fields: Any) -> ConfigurationSet:
    """Return what a server is made of."""
    gpu_type = GpuType(fields.pop("gpu_type", "v100" if gpus else ""))
    return ConfigurationSet(fields.pop("name", gpu_type), gpu_type, gpus, **fields)


def node_name(name: str | int = 0) -> NodeName:
    return NodeName(f"n{name}" if isinstance(name, int) else name)


def node_added(name: str | int = 0, gpus: int = 4, at: int = 0, **fields: Any) -> NodeAdded:
    return NodeAdded(at, node_name(name), configuration(gpus, **fields))


def servers(*gpus: int, **fields: Any) -> tuple[NodeAdded, ...]:
    """Return one server for each number of GPUs: n0, n1, …"""
    return tuple(node_added(number, count, **fields) for number, count in enumerate(gpus))


def quota(queue: str, gpus: int | None, at: int = 0, users: Sequence[str] = ()) -> QuotaChanged:
    return QuotaChanged(at, QueueName(queue), gpus, users=tuple(users))


def allocation(**masks: int) -> Allocation:
    """Return an allocation by node: `allocation(n0=0b11)`."""
    return Allocation(tuple(Share(NodeName(node), mask) for node, mask in masks.items()))


def packed(**masks: int) -> Allocation:
    """Return an allocation that may have company: `packed(n0=0b11)`."""
    return Allocation(allocation(**masks).shares, Sharing.packed)


def scheduler_started(term: int = 1, at: int = 0, policy: str = "fifo") -> SchedulerStarted:
    return SchedulerStarted(at, term, "0", policy, "1", 7, "{}")


def job_submitted(name: str | int = 0, gpus: int = 1, at: int = 0, **fields: Any) -> JobSubmitted:
    duration_us = fields.pop("lasts", 10)
    return JobSubmitted(at, job_id(name), job_spec(gpus, **fields), duration_us)


def job_finished(name: str | int = 0, at: int = 0, ended: int | None = None) -> JobFinished:
    return JobFinished(at, job_id(name), ended)


def round_planned(number: int = 0, at: int = 0, seen: int = 0) -> RoundPlanned:
    return RoundPlanned(at, number, 0, seen, Trigger.round)


def granted(
    name: str | int = 0, at: int = 0, *, instant: bool = False, **masks: int
) -> AllocationChanged:
    """Return the decision to run a job somewhere: `granted(0, n0=0b11)`."""
    return AllocationChanged(at, job_id(name), allocation(**masks), BECAUSE, instant)


def revoked(name: str | int = 0, at: int = 0, *, instant: bool = False) -> AllocationChanged:
    return AllocationChanged(at, job_id(name), NOTHING, BECAUSE, instant)


def attempt_started(name: str | int = 0, at: int = 0, attempt: int = 1) -> AttemptStarted:
    return AttemptStarted(at, job_id(name), attempt)


_POLICIES: dict[str, Any] = {
    "fifo": fifo.Fifo,
    "fifo_backfill": fifo.FifoBackfill,
    "fifo_easy": fifo.FifoEasy,
    "las": las.Las,
    "sjf": shortest.Sjf,
    "srtf": shortest.Srtf,
}
POLICY_NAMES = tuple(_POLICIES)


def policy(name: str = "fifo", placement: str = "consolidated", **params: Any) -> RankedPolicy:
    """Return a policy; durations among the parameters are in seconds, as in configuration."""
    found = _POLICIES[name]
    built: RankedPolicy = found.build(found.Params(**params), PLACEMENTS[placement]())
    return built


def las_policy(
    bounds_gpu_us: Sequence[int] = (20, 60), placement: str = "consolidated"
) -> RankedPolicy:
    """Return `las` with thresholds in GPU-microseconds."""
    return RankedPolicy(las.AttainedService(tuple(bounds_gpu_us)), PLACEMENTS[placement]())


def scheme(staleness_us: int = 0, **fields: Any) -> Decentralised:
    """Return how job schedulers propose, with short waits."""
    usual: dict[str, Any] = {
        "built_in": True,
        "candidates": 2,
        "retry_us": 2,
        "retry_most_us": 8,
        "reserve_after": 3,
        "reserve_for_us": 20,
    }
    return Decentralised(staleness_us=staleness_us, **usual | fields)


@dataclass(slots=True)
class Tape:
    """A log in memory that keeps events as they are."""

    events: list[Event] = field(default_factory=list)

    def append(self, events: Sequence[Event]) -> int:
        self.events.extend(events)
        return len(self.events)

    async def commit(self) -> None:
        """Keep nothing anywhere: there is nothing to lose."""


def drive(awaited: Coroutine[Any, Any, T]) -> T:
    """Run what never really waits, without an event loop."""
    try:
        awaited.send(None)
    except StopIteration as returned:
        result: T = returned.value
        return result
    raise AssertionError("it waits for something outside")


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything a simulated run starts from."""

    servers: tuple[NodeAdded, ...] = ()
    jobs: tuple[TraceJob, ...] = ()
    queues: tuple[QuotaChanged, ...] = ()
    round_us: int = 0
    costs: Costs = field(default_factory=Costs)
    lease: Lease = PLAIN_LEASE
    failures: Failures = NO_FAILURES
    guards: Guards = NO_GUARDS
    speeds: SpeedModel | None = None
    backend_rounds: bool = False
    all_reasons: bool = False
    until_us: int | None = None
    is_live: bool = False
    live_reactions: bool = False
    samples: Samples = NO_SAMPLES
    checkpoints_stay: bool = False
    launches_wait: bool = False
    on_fault: OnFault = OnFault.stop
    table_check: TableCheck | None = None
    learns_tolerance: bool = False
    slicing: Slicing = NO_SLICING
    decentralised: Decentralised | None = None
    full_waits: bool = True
    moves_evicted: bool = True
    bounds_departures: bool = False
    retries_elsewhere: bool = False

    def backend(self) -> SimulatedBackend:
        """Return the world behind the port."""
        return SimulatedBackend(
            self.jobs,
            costs=self.costs,
            lease=self.lease,
            failures=self.failures,
            speeds=self.speeds,
            samples=self.samples,
            retries=self.live_reactions,
            slicing=self.slicing,
        )

    def rules(self, *, instant: bool) -> RoundRules:
        return RoundRules(
            self.round_us,
            instant=instant,
            backend_rounds=self.backend_rounds,
            all_reasons=self.all_reasons,
            guards=self.guards,
            is_live=self.is_live,
            live_reactions=self.live_reactions,
            checkpoints_stay=self.checkpoints_stay,
            launches_wait=self.launches_wait,
            on_fault=self.on_fault,
            table_check=self.table_check,
            learns_tolerance=self.learns_tolerance,
            takes_turns=bool(self.slicing.quantum_us),
            decentralised=self.decentralised,
            full_waits=self.full_waits,
            moves_evicted=self.moves_evicted,
            bounds_departures=self.bounds_departures,
            retries_elsewhere=self.retries_elsewhere,
        )

    def scheduler(
        self,
        chosen: Policy[Any],
        *,
        instant: bool = True,
        listeners: Iterable[Observers] = (),
    ) -> tuple[Scheduler, list[Event]]:
        """Return a core that knows the servers and quotas, and the events that told it."""
        core = Scheduler(chosen, self.rules(instant=instant), listeners=listeners)
        core.view.open()
        core.emit(scheduler_started(policy=chosen.name))
        opening: list[Event] = [*self.queues, *self.servers]
        for told in opening:
            core.emit(told)
        core.view.close()
        events, core._events = core._events, []
        return core, events


@dataclass(frozen=True)
class Outcome:
    """What came of a run: the core at its end, and all events."""

    core: Scheduler
    events: list[Event]

    @property
    def ended(self) -> dict[JobId, JobOutcome]:
        """How jobs ended, in the order of their ends."""
        past = self.core.past
        assert isinstance(past, MemoryPastJobs)
        return past.outcomes

    @property
    def state(self) -> State:
        return self.core.state

    def of(self, *kinds: type[Event]) -> list[Any]:
        """Return the events of some kinds, in order."""
        return [event for event in self.events if isinstance(event, kinds)]

    def ends_us(self) -> dict[str, int]:
        """Return when each job finished."""
        return {str(end.job_id): end.at_us for end in self.of(JobFinished)}


def run(
    world: World,
    chosen: Policy[Any],
    *,
    wrapped: Callable[[SimulatedBackend], Any] = lambda backend: backend,
    listeners: Iterable[Observers] = (),
) -> Outcome:
    """Run a world under a policy to its end."""
    backend = world.backend()
    core, events = world.scheduler(chosen, instant=backend.instant, listeners=listeners)
    tape = Tape(events)
    drive(run_rounds(core, wrapped(backend), tape, until_us=world.until_us))
    return Outcome(core, tape.events)
