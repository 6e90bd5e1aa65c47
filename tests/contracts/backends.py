"""A backend as the contract suite sees it: set up by its kind, driven by a hand.

All times are in ticks of the kind: a tick is long against what the backend itself takes, so that
a simulation counts it in microseconds and a live backend in tenths of a second. The suite says
when things are ordered and how long jobs work; the kind says how late they may be seen.

A new backend writes a `BackendKind` and joins the list in conftest.py; the tests stay as they are.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from shunter.core import (
    AttemptExited,
    Backend,
    Effect,
    Input,
    Launch,
    Migrate,
    NothingComes,
    Resume,
    SuspendAttempt,
)
from shunter.events import (
    Allocation,
    AttemptStarted,
    GpusReleased,
    JobId,
    JobSpec,
    JobSuspended,
    NodeName,
)
from tests.factories import allocation, job_id

Seen = TypeVar("Seen", AttemptStarted, AttemptExited, JobSuspended, GpusReleased)

SERVERS = {NodeName("n0"): 4, NodeName("n1"): 4}
ON_N0 = allocation(n0=0b0001)
ON_N1 = allocation(n1=0b0001)
PATIENCE_TICKS = 40


@dataclass(frozen=True, slots=True)
class Program:
    """A job that works for so many ticks, on one GPU, and exits.

    Told to leave, it saves its state; from that it goes on in its next attempt.
    """

    name: str = "j0"
    work_ticks: int = 8
    exit_code: int = 0


class Stage(Protocol):
    """A backend that knows its servers and programs, and runs nothing yet, at an instant."""

    @property
    def backend(self) -> Backend: ...

    @property
    def now_us(self) -> int: ...

    def spec(self, job: JobId) -> JobSpec:
        """Return what to launch for a program."""


class BackendKind(Protocol):
    """One kind of backend, with settings.

    `slack_us` is how much later than computed an attempt may be seen to end.
    """

    @property
    def name(self) -> str: ...

    @property
    def tick_us(self) -> int: ...

    @property
    def slack_us(self) -> int: ...

    def staged(
        self, servers: Mapping[NodeName, int], programs: Sequence[Program]
    ) -> AbstractAsyncContextManager[Stage]:
        """Set a backend up with GPUs by server, and take it down again."""


@dataclass(slots=True)
class Driver:
    """Gives orders, lets time pass, and remembers all that was observed.

    Whatever it observes, it holds to what every observation must be: in order of time, not
    before the orders it answers, and not before it happened.
    """

    kind: BackendKind
    stage: Stage
    now_us: int
    seen: list[Input] = field(default_factory=list)

    @property
    def instant(self) -> bool:
        return self.stage.backend.instant

    def ticks(self, count: int) -> int:
        """Return so many ticks in microseconds."""
        return count * self.kind.tick_us

    def of(self, kind: type[Seen], job: str, attempt: int | None = None) -> list[Seen]:
        """Return what was observed of a kind about a job."""
        return [
            seen
            for seen in self.seen
            if isinstance(seen, kind)
            and seen.job_id == job
            and (attempt is None or seen.attempt == attempt)
        ]

    def about(self, job: str) -> list[Input]:
        """Return all that was observed about a job, in order."""
        return [seen for seen in self.seen if getattr(seen, "job_id", None) == job]

    async def orders(self, *effects: Effect) -> None:
        """Give orders at this instant."""
        await self.stage.backend.perform(effects, self.now_us)

    async def passes(self, ticks: int) -> list[Input]:
        """Let time pass up to the end of the n-th tick from now; return what was observed."""
        before = len(self.seen)
        until_us = self.ticks(self.now_us // self.kind.tick_us + ticks)
        while await self.observes(until_us):
            pass
        return self.seen[before:]

    async def sees(self, kind: type[Seen], job: str, attempt: int) -> Seen:
        """Let time pass until something is observed; fail when patience is over."""
        until_us = self.now_us + self.ticks(PATIENCE_TICKS)
        while not (found := self.of(kind, job, attempt)):
            came = await self.observes(until_us)
            assert came, f"no {kind.__name__} of {job}.{attempt}, but {self.about(job)}"
        return found[0]

    async def starts(self, job: str = "j0", on: Allocation = ON_N0, attempt: int = 1) -> int:
        """Launch an attempt, or resume it; return when it was seen to work."""
        await self.orders(self.launching(job, on, attempt))
        if self.instant:
            return self.now_us
        return (await self.sees(AttemptStarted, job, attempt)).at_us

    def launching(self, job: str = "j0", on: Allocation = ON_N0, attempt: int = 1) -> Effect:
        """Return the order that begins an attempt."""
        name = job_id(job)
        spec = self.stage.spec(name)
        if attempt == 1:
            return Launch(name, attempt, on, spec)
        return Resume(name, attempt, on, spec)

    async def leaves(self, order: SuspendAttempt | Migrate) -> int:
        """Make an attempt leave its GPUs; return when it was seen to stop working."""
        await self.orders(order)
        if self.instant:
            return self.now_us
        job, attempt = order.job_id, order.attempt
        await self.sees(GpusReleased, job, attempt)
        return (await self.sees(JobSuspended, job, attempt)).at_us

    async def ends(self, job: str = "j0", attempt: int = 1) -> AttemptExited:
        """Let time pass until an attempt has exited and its GPUs are free."""
        exited = await self.sees(AttemptExited, job, attempt)
        if not exited.released:
            await self.sees(GpusReleased, job, attempt)
        return exited

    async def observes(self, until_us: int) -> Sequence[Input]:
        """Observe once; return what came, which is nothing on a timeout only."""
        before_us = self.now_us
        self.now_us, said = await self.stage.backend.observe(until_us)
        inputs = [seen for seen in said if not isinstance(seen, NothingComes)]
        assert len(inputs) == len(said) or self.now_us == until_us, "more may come before that"
        instants = [seen.at_us for seen in inputs]
        assert before_us <= self.now_us <= until_us, "time is not where it may be"
        assert inputs or self.now_us == until_us, "nothing was observed, and before the deadline"
        assert instants == sorted(instants), "not in order of time"
        assert all(before_us <= at_us <= self.now_us for at_us in instants), "not in its time"
        self.seen += inputs
        return inputs


def ended_us(exited: AttemptExited) -> int:
    """Return when an attempt ended, which may have been before that was seen."""
    return exited.at_us if exited.ended_us is None else exited.ended_us


@asynccontextmanager
async def driven(kind: BackendKind, *programs: Program) -> AsyncIterator[Driver]:
    """Set a backend up with programs (one of 8 ticks if none is named), and drive it."""
    async with kind.staged(SERVERS, programs or (Program(),)) as stage:
        yield Driver(kind, stage, stage.now_us)
