"""The round loop: order, apply, commit, act.

It has no clock: time is what `observe` returns. A live log commits every step; a simulated one
when a batch is full. A failed commit ends the loop, and nobody outside has seen past it.
"""

from collections.abc import Awaitable, Callable, Sequence

from shunter.core.interfaces import Backend, Effect, EventLog, Input
from shunter.core.scheduler import Scheduler
from shunter.events import Event

Step = Callable[[int, Sequence[Input]], Awaitable[tuple[list[Event], list[Effect]]]]
"""One step of a scheduler whose policy is not at hand and must be waited for."""


async def run_rounds(
    core: Scheduler,
    backend: Backend,
    log: EventLog,
    now_us: int = 0,
    until_us: int | None = None,
    *,
    step: Step | None = None,
    is_enough: Callable[[], bool] | None = None,
) -> int:
    """Run until nothing can happen any more or until an instant; return the last one.

    Args:
        core: what decides.
        backend: where jobs run.
        log: where facts go.
        now_us: the instant at which it begins.
        until_us: the instant at which it ends at the latest.
        step: takes the place of the scheduler's own step.
        is_enough: asked after each step whether to end it there.
    Raises:
        PlanError: the policy failed, and that is to end the run.
        LogError: the log could not make a step durable; its effects were not carried out.
        BackendError: the backend failed for good.
    """
    gather_us = core.rules.round_us
    while True:
        deadline_us = core.deadline_us(now_us)
        if deadline_us is None and core.world_ended:
            return now_us
        if until_us is not None and (deadline_us is None or deadline_us > until_us):
            deadline_us = until_us
        now_us, inputs = await backend.observe(deadline_us, gather_us)
        if step is None:
            events, effects = core.step(now_us, inputs)
        else:
            events, effects = await step(now_us, inputs)
        if events:
            log.append(events)
            await log.commit()
        if effects:
            await backend.perform(effects, now_us)
        if until_us is not None and now_us >= until_us:
            return now_us
        if is_enough is not None and is_enough():
            return now_us
