"""Ends that an arrival remembers: a fault of the public Tiresias simulator's own clock.

Each time before the clock jumps: if the next ends and the next arrival are at the same instant,
those ends are remembered with the arrival, in place of what was remembered before. When it comes,
the remembered jobs end, also those that were told to leave in between and have work left, whether
they wait or run again.
"""

from collections.abc import Sequence
from typing import Any

from shunter.core import Backend, Effect, Input, SimulatedWorld
from shunter.errors import ConfigError
from shunter.events import JobId


class RememberedEnds:
    """The world of `[simulation] world = "remembered_ends"`."""

    name = "remembered_ends"

    def record(self) -> dict[str, Any]:
        """Return the key that the log has had for it from the beginning."""
        return {"remembered_ends": True}

    def around(self, inside: SimulatedWorld, round_us: int) -> Backend:
        """Return a cluster that remembers ends.

        Raises:
            ConfigError: decisions are made in rounds, or something takes time there.
        """
        if round_us or not inside.instant:
            raise ConfigError(
                "simulation.world: remembered_ends: expected policy.trigger = 'event', no costs, "
                "no speeds, and jobs without a tolerance"
            )
        return RememberingBackend(inside)


class RememberingBackend:
    """A simulated cluster in which arrivals remember ends."""

    instant = True

    def __init__(self, inside: SimulatedWorld) -> None:
        self._inside = inside
        self._kept: list[JobId] = []

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Carry orders out."""
        await self._inside.perform(effects, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Return what happens next; with an arrival, first the ends that it remembers."""
        inside = self._inside
        arrives_us = inside.arrives_us
        due = inside.due(arrives_us)
        if due is not None:
            self._kept = due
        at_us, inputs = await inside.observe(until_us, gather_us)
        if not self._kept or at_us != arrives_us:
            return at_us, inputs
        ends = [inside.end(job_id, at_us) for job_id in self._kept]
        self._kept = []
        return at_us, [*(end for end in ends if end is not None), *inputs]
