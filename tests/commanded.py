"""A backend with people: commands come in at their instants, beside what the cluster does."""

from collections.abc import Sequence

from shunter.core import Backend, Command, Effect, Input


class Commanded:
    """Hands commands in, in order of their instants, and leaves the rest to another backend."""

    def __init__(self, backend: Backend, commands: Sequence[Command]) -> None:
        self.instant = backend.instant
        self._backend = backend
        self._commands = list(commands)

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        await self._backend.perform(effects, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        at_us = self._commands[0].at_us if self._commands else None
        if at_us is None or (until_us is not None and until_us < at_us):
            return await self._backend.observe(until_us, gather_us)
        now_us, inputs = await self._backend.observe(at_us, gather_us)
        due = [command for command in self._commands if command.at_us <= now_us]
        del self._commands[: len(due)]
        return now_us, (*inputs, *due)
