"""What the core needs from others, and never who provides it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from shunter.core.effects import Effect
from shunter.core.intake.inputs import Input
from shunter.core.planning.plan import Plan
from shunter.core.view import View
from shunter.events.facts import Event, SolvedFact, Target
from shunter.events.values import JobId, JobSpec

Memory = TypeVar("Memory")
Observer = Callable[[Any, View], None]
Observers = Mapping[type[Event], Observer]


def both(first: Observers, second: Observers) -> Observers:
    """Return who is told of facts by two: the first of them before the second."""
    found = dict(first)
    for kind, observe in second.items():
        before = found.get(kind)
        found[kind] = observe if before is None else _one_after_the_other(before, observe)
    return found


def _one_after_the_other(first: Observer, second: Observer) -> Observer:
    def observe_both(event: Any, view: View) -> None:
        first(event, view)
        second(event, view)

    return observe_both


class Rng(Protocol):
    """A stream of chance that depends on nothing but seed, policy and round number."""

    def random(self) -> float:
        """Return the next number in [0, 1)."""

    def below(self, bound: int) -> int:
        """Return the next integer in [0, bound)."""


class Policy(Protocol[Memory]):
    """A pure function from a view and its own memory to a plan that explains itself.

    Its memory is a plain dataclass which only observers and `advance` write; `self` holds
    configuration only. See docs/decisions/0003 for where this differs from the first design.
    """

    @property
    def name(self) -> str:
        """Its name in configuration and log."""

    @property
    def version(self) -> str:
        """The version of its rules; another one may decide otherwise."""

    @property
    def oracle(self) -> bool:
        """Whether it is told how long jobs will run."""

    def start(self, view: View) -> Memory:
        """Return the memory for a cluster as it is, at time zero or in mid-log."""

    def observers(self, memory: Memory) -> Observers:
        """Return what it wants to hear of, and who listens: called after the fold."""

    def advance(self, memory: Memory, view: View) -> None:
        """Bring the memory up to the view's instant; called right before a plan."""

    def target(self, memory: Memory, view: View) -> tuple[Target, ...] | SolvedFact | None:
        """Return new target shares if they are due: the expensive part, recorded.

        The whole fact, where there is more to say of them (that there was no answer, and why), or
        where it is of something else: the sizes of jobs.
        """

    def plan(self, memory: Memory, view: View, rng: Rng) -> Plan:
        """Return what to change now; reads only."""

    def wake_at(self, memory: Memory) -> int | None:
        """Return when it could decide otherwise though nothing arrives or ends; O(1)."""

    def settled(self, memory: Memory) -> bool:
        """Say whether a plan made now could not change anything."""


AnyPolicy: TypeAlias = Policy[Any]
"""A policy whose memory only itself reads."""


class Backend(Protocol):
    """Whoever carries effects out and sees what happens; only here does time pass."""

    @property
    def instant(self) -> bool:
        """Whether all outcomes take no time here, and so are part of the decision."""

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Accept the effects of a step; does not wait for their outcomes."""

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Wait for inputs and return them with the instant they bring us to.

        Returns the inputs of the next instant, and those that follow up to the next multiple of
        `gather_us`, never past `until_us`; on a timeout exactly `until_us` and nothing, but that
        `NothingComes` where a simulation knows it.
        """


class SimulatedWorld(Backend, Protocol):
    """A simulated cluster, as what other packages put around it sees it."""

    @property
    def arrivals(self) -> Sequence[tuple[int, JobId, JobSpec]]:
        """Instant, id and specification of every job of the trace, in its order."""

    @property
    def arrives_us(self) -> int:
        """The instant of the next arrival; one that never comes, if there is none."""

    def due(self, at_us: int) -> list[JobId] | None:
        """Return whose ends are foreseen at an instant, in order; None: not next."""

    def end(self, job_id: JobId, at_us: int) -> Input | None:
        """End a job, whether it runs or waits; None: it has gone."""


class EventLog(Protocol):
    """Where facts go."""

    def append(self, events: Sequence[Event]) -> int:
        """Fix the order of events and return the last sequence number; no I/O."""

    async def commit(self) -> None:
        """Make what was appended durable, as far as this log promises."""
