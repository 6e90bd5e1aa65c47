"""Policies of somebody else's, by entry point: what they do wrong stands in their names."""

from collections.abc import Callable
from typing import Any, ClassVar

from shunter.core import Observers, Policy, Rng, View
from shunter.core.planning import Placement
from shunter.events import JobSubmitted
from shunter.policies import Fifo, PolicyParams


class Hanging:
    """FIFO that never comes back from one hook once the job `hang` is there."""

    version, oracle = "1", False

    def __init__(self, name: str, hook: str, placement: Placement) -> None:
        self.name, self._hook = name, hook
        self._policy: Policy[Any] = Fifo.build(Fifo.Params(), placement)
        self.start, self.advance = self._policy.start, self._policy.advance
        self.target, self.settled = self._policy.target, self._policy.settled
        self.wake_at = self._policy.wake_at

    def observers(self, memory: Any) -> Observers:
        found = dict(self._policy.observers(memory))
        tell = found[JobSubmitted]

        def told(event: JobSubmitted, view: View) -> None:
            self._hang("observer", str(event.job_id))
            tell(event, view)

        return {**found, JobSubmitted: told}

    def plan(self, memory: Any, view: View, rng: Rng) -> Any:
        for job_id in view.jobs:
            self._hang("plan", str(job_id))
        return self._policy.plan(memory, view, rng)

    def _hang(self, hook: str, job_id: str) -> None:
        while hook == self._hook and job_id == "hang":
            pass


class HangsInPlan:
    """A plugin whose plan never ends."""

    name: ClassVar[str] = "hangs_in_plan"
    oracle: ClassVar[bool] = False

    class Params(PolicyParams):
        """None."""

    @staticmethod
    def build(params: Any, placement: Placement) -> Hanging:
        return Hanging("hangs_in_plan", "plan", placement)


class HangsInObserver(HangsInPlan):
    """A plugin that never comes back from being told of a job."""

    name: ClassVar[str] = "hangs_in_observer"

    @staticmethod
    def build(params: Any, placement: Placement) -> Hanging:
        return Hanging("hangs_in_observer", "observer", placement)


class NoParams:
    """A plugin without a model of its parameters."""

    name, oracle = "no_params", False
    build: Callable[..., Any] = HangsInPlan.build


class Unversioned(HangsInPlan):
    """A plugin whose policy lacks what every policy has."""

    @staticmethod
    def build(params: Any, placement: Placement) -> Any:
        return object()


class Untyped(HangsInPlan):
    """A plugin with a parameter of a type that no config can have."""

    name: ClassVar[str] = "untyped"

    class Params(PolicyParams):
        """One."""

        thing: Hanging | None = None
