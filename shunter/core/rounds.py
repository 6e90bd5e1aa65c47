"""The round loop: order, apply, commit, act.

It has no clock: time is what `observe` returns. A live log commits every step; a simulated one
when a batch is full. A failed commit ends the loop, and nobody outside has seen past it.
"""

from shunter.core.ports import Backend, EventLog
from shunter.core.scheduler import Scheduler


async def run_rounds(
    core: Scheduler, backend: Backend, log: EventLog, now_us: int = 0, until_us: int | None = None
) -> int:
    """Run until nothing can happen any more or until an instant; return the last one.

    Raises:
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
        events, effects = core.step(now_us, inputs)
        if events:
            log.append(events)
            await log.commit()
        if effects:
            await backend.perform(effects, now_us)
        if until_us is not None and now_us >= until_us:
            return now_us
