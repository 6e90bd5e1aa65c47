"""Orders on their way: those of one job one after the other, of different jobs side by side."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from anyio.abc import TaskGroup

from shunter.backends.node.failpoints import failpoint
from shunter.core.effects import Effect
from shunter.events.values.ids import JobId


class OrderQueue:
    """Has orders carried out in the tasks of a backend."""

    def __init__(self, tasks: TaskGroup, obey: Callable[[Effect], Awaitable[None]]) -> None:
        self._tasks = tasks
        self._obey = obey
        self._waiting: dict[JobId, deque[Effect]] = {}

    def give(self, effects: Iterable[Effect]) -> None:
        """Accept orders; whoever gave them does not wait."""
        for effect in effects:
            waiting = self._waiting.get(effect.job_id)
            if waiting is not None:
                waiting.append(effect)
                continue
            self._waiting[effect.job_id] = deque([effect])
            self._tasks.start_soon(self._carry_out, effect.job_id)

    async def _carry_out(self, job_id: JobId) -> None:
        waiting = self._waiting[job_id]
        while waiting:
            effect = waiting.popleft()
            failpoint(f"to {type(effect).__name__}")
            await self._obey(effect)
            failpoint(f"done {type(effect).__name__}")
        del self._waiting[job_id]
