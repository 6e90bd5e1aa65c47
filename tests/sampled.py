"""A backend that measures: samples of messages come in from attempts that run just then."""

from collections.abc import Sequence
from dataclasses import dataclass

from shunter.core import AttemptExited, Backend, Effect, Fence, Input, Launch, Resume
from shunter.events import AttemptLost, JobId, ProfileSampled


@dataclass(frozen=True)
class Seen:
    """What samples saw of the messages of every job that runs at an instant."""

    at_us: int
    largest: int
    total: int


class Sampled:
    """Hands samples in at their instants, and leaves the rest to another backend."""

    def __init__(self, backend: Backend, seen: Sequence[Seen]) -> None:
        self.instant = backend.instant
        self._backend = backend
        self._seen = sorted(seen, key=lambda sample: sample.at_us)
        self._attempts: dict[JobId, int] = {}

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        for effect in effects:
            if isinstance(effect, Launch | Resume):
                self._attempts[effect.job_id] = effect.attempt
            elif not isinstance(effect, Fence):
                self._attempts.pop(effect.job_id, None)
        await self._backend.perform(effects, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        at_us = self._seen[0].at_us if self._seen else None
        if at_us is None or (until_us is not None and until_us < at_us):
            return self._noted(*await self._backend.observe(until_us, gather_us))
        now_us, inputs = self._noted(*await self._backend.observe(at_us, gather_us))
        due = [seen for seen in self._seen if seen.at_us <= now_us]
        del self._seen[: len(due)]
        samples = [
            ProfileSampled(
                now_us,
                job_id,
                attempt,
                message_bytes_largest=seen.largest,
                message_bytes_total=seen.total,
            )
            for seen in due
            for job_id, attempt in self._attempts.items()
        ]
        return now_us, (*inputs, *samples)

    def _noted(self, now_us: int, inputs: Sequence[Input]) -> tuple[int, Sequence[Input]]:
        for told in inputs:
            if isinstance(told, AttemptExited | AttemptLost):
                self._attempts.pop(told.job_id, None)
        return now_us, inputs
