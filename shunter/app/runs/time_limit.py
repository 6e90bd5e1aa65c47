"""A wall-clock limit for the policy of a simulation, where one is asked for.

It depends on the machine, so a simulation has none by itself. A signal interrupts the policy, and
nothing but the policy: where it comes while the scheduler folds facts, it comes again soon.
"""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from shunter.core.effects import Effect
from shunter.core.intake.inputs import Input
from shunter.core.planning.fault_barrier import OBSERVER, Barrier
from shunter.core.round_loop import Step
from shunter.core.scheduler import Scheduler
from shunter.errors import PlanError
from shunter.events.facts.decisions import PolicySetAside
from shunter.events.kinds import Event

AGAIN_S = 0.01
_HOOKS = frozenset(
    {Barrier.start.__code__, Barrier.observers.__code__, Barrier.advance.__code__}
    | {Barrier.target.__code__, Barrier.plan.__code__, Barrier.wake_at.__code__}
    | {Barrier.settled.__code__}
)


@contextmanager
def timed(core: Scheduler, limit_us: int | None) -> Iterator[Step | None]:
    """Give a run's steps a time limit; None, the usual step, where there is none."""
    if limit_us is None:
        yield None
        return
    limit = _Limit(core, limit_us / 1e6)
    before = signal.signal(signal.SIGALRM, limit.interrupt)
    try:
        yield limit.step
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Limit:
    """Makes steps, and interrupts a policy that takes too long in one."""

    def __init__(self, core: Scheduler, limit_s: float) -> None:
        assert isinstance(core.asked, Barrier), "the policy of a simulation is at hand"
        self._core, self._barrier, self._limit_s = core, core.asked, limit_s
        self._told = 0
        self._is_recorded = False

    async def step(self, now_us: int, inputs: Sequence[Input]) -> tuple[list[Event], list[Effect]]:
        """Make a step; record it if the policy was set aside."""
        core, barrier = self._core, self._barrier
        barrier.is_late = bool(barrier.aside)
        signal.setitimer(signal.ITIMER_REAL, self._limit_s)
        core.take_in(now_us, inputs)
        if core.is_due(now_us):
            core.decide(now_us)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if barrier.aside and not self._is_recorded:
            self._is_recorded = True
            core.view.open()
            core.emit(PolicySetAside(now_us, barrier.name, barrier.aside, self._told))
            core.view.close()
        return core.hand_on()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Raise in the policy, if it is at work; look again soon in any case."""
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        while frame is not None:
            if frame.f_code in _HOOKS or frame.f_code.co_name == OBSERVER:
                is_observer = frame.f_code.co_name == OBSERVER
                self._told = self._core.state.seq - is_observer
                self._barrier.is_late = True
                raise PlanError(f"it took longer than policy.time_limit, {self._limit_s:g} s")
            frame = frame.f_back
