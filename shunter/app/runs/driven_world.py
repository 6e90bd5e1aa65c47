"""A simulated world with a program in it that watches its jobs and gives orders: a search.

    world ─▶ driven world ─▶ scheduler
                  ▲
                driver: looks at the state at instants of its own, and orders as a client does

Between world and scheduler, so that orders come in like those of people: they are facts of the log
(commanded), and who verifies the log needs no driver. At an instant of the driver's everything else
happens first, so it sees a state that is complete up to then; what it orders takes effect at that
very instant, and it is not asked again before a later one.
"""

from collections.abc import Sequence
from typing import Protocol

from shunter.core.effects import Effect
from shunter.core.intake.inputs import Command, Input, NothingComes
from shunter.core.interfaces import Backend
from shunter.core.view import View


class Driver(Protocol):
    """A program that gives orders by what it sees; the same states, the same orders."""

    def wake_at(self) -> int | None:
        """Return when it wants to look next, after its last look; None: never again."""

    def orders(self, now_us: int, view: View) -> Sequence[Command]:
        """Return what it orders now, with this instant; `view` is open for this call."""


class DrivenWorld:
    """Asks a driver at its instants, and leaves all else to the world behind."""

    __slots__ = ("_driver", "_view", "_world")

    def __init__(self, world: Backend, driver: Driver, view: View) -> None:
        self._world = world
        self._driver = driver
        self._view = view

    @property
    def instant(self) -> bool:
        """Whether nothing takes any time in the world behind."""
        return self._world.instant

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Carry orders out, as the world behind does."""
        await self._world.perform(effects, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Return what happens next, or what the driver orders before that."""
        wakes_us = self._driver.wake_at()
        if wakes_us is None or (until_us is not None and until_us < wakes_us):
            return await self._world.observe(until_us, gather_us)
        now_us, inputs = await self._world.observe(wakes_us, gather_us)
        if any(type(each) is not NothingComes for each in inputs):
            return now_us, inputs
        self._view.open()
        orders = self._driver.orders(now_us, self._view)
        self._view.close()
        wakes_us = self._driver.wake_at()
        assert wakes_us is None or wakes_us > now_us, "a driver looks once at an instant"
        return now_us, orders
