"""The simulated backend under a hand that gives orders at chosen instants.

Every test here plays the scheduler: it says what to launch, suspend or end and when, and compares
what is observed with instants computed by hand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shunter.backends.simulated import Failures, NodeChange
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
    Terminate,
    WorldEnded,
)
from shunter.events import Allocation
from tests.factories import allocation, drive, job_id, job_spec, node_name

ON_N0 = allocation(n0=1)
ON_N1 = allocation(n1=1)
ON_BOTH = allocation(n0=1, n1=1)


class Hand:
    """Drives a backend, and stands at the instant that it has been driven to."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.now_us = 0

    def orders(self, *effects: Effect) -> None:
        """Give orders at this instant."""
        drive(self.backend.perform(effects, self.now_us))

    def until(self, at_us: int) -> list[Input]:
        """Return all that happens up to an instant and at it; go there."""
        seen: list[Input] = []
        while inputs := self._observed(at_us):
            if isinstance(inputs[-1], NothingComes):
                assert len(inputs) == 1, "what comes may be followed by more"
                break
            seen += inputs
        assert self.now_us == at_us, "an observation in which nothing happened ends too early"
        return seen

    def goes_on(self) -> list[Input]:
        """Return all that happens until nothing will happen by itself any more."""
        seen: list[Input] = []
        while not isinstance((inputs := self._observed(None))[-1], WorldEnded):
            seen += inputs
        return seen

    def _observed(self, until_us: int | None) -> Sequence[Input]:
        self.now_us, inputs = drive(self.backend.observe(until_us))
        return inputs


def ends(seen: Sequence[Input]) -> dict[str, int]:
    """Return when which jobs ended."""
    return {str(one.job_id): one.at_us for one in seen if isinstance(one, AttemptExited)}


@dataclass(frozen=True)
class Mishaps(Failures):
    """Failures at instants that a test chooses."""

    chosen: tuple[NodeChange, ...] = ()

    def changes(self) -> Iterator[NodeChange]:
        return iter(self.chosen)


def mishaps(*chosen: NodeChange) -> Mishaps:
    return Mishaps(chosen=chosen)


def dies(node: int, at: int, cause: str = "server") -> NodeChange:
    return NodeChange(at, node_name(node), is_loss=True, cause=cause)


def returns(node: int, at: int) -> NodeChange:
    return NodeChange(at, node_name(node), is_loss=False, cause="server")


def launch(job: int = 0, where: Allocation = ON_N0) -> Launch:
    return Launch(job_id(job), 1, where, job_spec())


def resume(job: int = 0, attempt: int = 2, where: Allocation = ON_N0) -> Resume:
    return Resume(job_id(job), attempt, where, job_spec())


def suspend(job: int = 0, attempt: int = 1) -> SuspendAttempt:
    return SuspendAttempt(job_id(job), attempt)


def migrate(job: int = 0, attempt: int = 1, where: Allocation = ON_N1) -> Migrate:
    return Migrate(job_id(job), attempt, where)


def terminate(job: int = 0, attempt: int = 1) -> Terminate:
    return Terminate(job_id(job), attempt)
