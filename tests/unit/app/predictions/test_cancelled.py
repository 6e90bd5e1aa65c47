"""Forecasts that are given up while their process starts."""

import gc
import warnings

import anyio
import anyio.lowlevel
import pytest

from shunter.api import services as forecasts
from shunter.ask.forks import Question

STEPS = 12
"""Of the loop, while a process is started: cancelled in some of these it was left behind."""


async def _cancelled_after(steps: int) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(forecasts._made, Question("sqlite:///none.db"))
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("steps", range(STEPS))
def test_forecast_cancelled_while_its_process_starts_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Method: what is left running warns once it is collected; the process only sleeps."""
    monkeypatch.setattr(forecasts, "BOOT", "import time; time.sleep(60)")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        anyio.run(_cancelled_after, steps)
        gc.collect()
    assert [str(each.message) for each in seen] == []
