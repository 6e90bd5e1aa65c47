"""Lists of large checkpoints are held together up to a weight, and none waits for ever."""

from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from shunter.backends.supervised.checkpoints.gang_checkpoints import HeavierError
from shunter.backends.supervised.checkpoints.lists_in_hand import ListsInHand
from shunter.backends.supervised.checkpoints.transfer import FEW, CheckpointTransfer
from shunter.events.values.ids import JobId, NodeName, UserName

pytestmark = pytest.mark.asyncio


class Holders:
    """Who holds lists at the moment, and lets go when it is said."""

    def __init__(self, most: int) -> None:
        self.lists, self.now, self.ends = (
            ListsInHand(most),
            dict[str, int](),
            dict[str, anyio.Event](),
        )

    async def hold(self, name: str, weight: int) -> None:
        self.ends[name] = anyio.Event()
        async with self.lists.held(weight):
            self.now[name] = weight
            await self.ends[name].wait()
        del self.now[name]

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await anyio.wait_all_tasks_blocked()


async def test_lists_are_held_together_as_far_as_they_fit_and_in_turn() -> None:
    held = Holders(100)
    async with anyio.create_task_group() as tasks:
        for name, weight in (("a", 40), ("b", 50), ("c", 30), ("d", 5)):
            tasks.start_soon(held.hold, name, weight)
            await anyio.wait_all_tasks_blocked()
        assert list(held.now) == ["a", "b"]  # d has room, and comes after c
        await held.end("a")
        assert list(held.now) == ["b", "c", "d"]
        for name in ("b", "c", "d"):
            await held.end(name)


async def test_one_that_weighs_more_than_all_is_held_alone() -> None:
    held = Holders(100)
    async with anyio.create_task_group() as tasks:
        for name, weight in (("a", 1), ("b", 1000)):
            tasks.start_soon(held.hold, name, weight)
            await anyio.wait_all_tasks_blocked()
        assert list(held.now) == ["a"]
        await held.end("a")
        assert list(held.now) == ["b"]
        await held.end("b")


async def test_one_that_gives_up_waiting_leaves_room_to_others() -> None:
    held = Holders(100)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(held.hold, "a", 60)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0):
            await held.hold("b", 60)
        tasks.start_soon(held.hold, "c", 40)
        await anyio.wait_all_tasks_blocked()
        assert list(held.now) == ["a", "c"]
        await held.end("a")
        await held.end("c")


class Shrinking(CheckpointTransfer):
    """Copies of a checkpoint that is large when it is listed, and small when it is weighed."""

    def __init__(self) -> None:
        agents: Any = {NodeName("n0"): SimpleNamespace(is_up=True)}
        limits: Any = SimpleNamespace(checkpoints="")
        super().__init__(limits, cast(Any, None), agents)
        self.allowed: list[int] = []

    async def _bring_of(self, *asked: Any) -> bool:
        self.allowed.append(asked[-1])
        if asked[-1] <= FEW:
            raise HeavierError
        return True

    async def _weight_of(self, *asked: Any) -> int:
        return 5


async def test_checkpoint_that_shrinks_while_it_is_weighed_is_still_held_as_a_large_one() -> None:
    """Goal: where it grows again, that is an error of the launch, and none of the daemon."""
    transfer = Shrinking()
    await transfer.bring(JobId("j0"), 2, UserName(""), [(NodeName("n0"),)], (NodeName("n1"),))
    assert transfer.allowed == [FEW, FEW + 1]
