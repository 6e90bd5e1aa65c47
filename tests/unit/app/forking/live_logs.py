"""Logs as a live daemon writes them, made of simulated ones: they tell no speeds and no run times.

What really happened is then exactly what a simulated world does, so that a fork of such a log can
be held to it.
"""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from shunter.config import make_config
from shunter.events import AttemptStarted, Event, JobSubmitted, SchedulerStarted, SpeedChanged
from shunter.events.log import open_log, read_log
from shunter.run import simulate

COLUMNS = "job_id,submit_s,duration_s,status,gpus,user,tolerance,shape_tolerance,interference"
NODES = [{"name": "n[1-2]", "gpus": 2, "type": "gpu", "rack": "r1"}]
COSTS = {"start": "2s", "suspend": "1s", "resume": "3s", "migrate": "3s"}


def config(folder: Path, policy: dict[str, Any], rows: list[str]) -> dict[str, Any]:
    """Return the config of a run of some jobs, one a row of `COLUMNS`, on two servers."""
    trace = folder / "jobs.csv"
    trace.write_text("\n".join([COLUMNS, *rows, ""]))
    return {
        "seed": 5,
        "cluster": {"nodes": NODES},
        "workload": {"trace": str(trace)},
        "policy": policy,
        "simulation": {"costs": COSTS},
    }


def live_log(folder: Path, tree: dict[str, Any], until_us: int | None = None) -> str:
    """Simulate a config, and return the address of its log as a live daemon would have it.

    Args:
        folder: where the log goes.
        tree: the config.
        until_us: what came later is left out.
    """
    told, url = str(folder / "told.db"), str(folder / f"live-{until_us}.db")
    simulate(make_config({**tree, "log": {"url": told}}, "test"), overwrite=True)
    asyncio.run(_rewrite(told, url, until_us))
    return url


async def _rewrite(told: str, url: str, until_us: int | None) -> None:
    async with read_log(told) as reader, open_log(url) as log:
        async for frame in reader.frames(0):
            events = [_untold(event) for event in frame.events()]
            log.append([each for each in events if until_us is None or each.at_us <= until_us])
        await log.commit()


def _untold(event: Event) -> Event:
    if isinstance(event, SchedulerStarted):
        return replace(event, simulated=False)
    if isinstance(event, JobSubmitted):
        return replace(event, duration_us=None)
    return replace(event, speed=1.0) if isinstance(event, AttemptStarted | SpeedChanged) else event
