"""Runs of a few jobs, one a row of a trace: what came of them, and whether their log verifies."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shunter.ask import verify_log
from shunter.config import LoadedConfig, load_config, make_config
from shunter.events import Event
from shunter.events.log import read_log
from shunter.run import fit_to_table, load_jobs, rebuild, simulate

TURNS: dict[str, Any] = {"name": "gandiva", "trigger": "event", "slicing": {}}
"""Jobs take turns, a minute each."""


def config_of(folder: Path, head: str, *rows: str, **tables: object) -> LoadedConfig:
    """Return the config of a run into run.db, on one server of 4 GPUs if nothing else is said.

    A row may have fewer columns than the head: those at the end are empty.
    """
    trace, columns = folder / "jobs.csv", head.count(",")
    lines = [row + "," * (columns - row.count(",")) for row in rows]
    trace.write_text("\n".join([head, *lines, ""]), encoding="utf-8")
    workload: Any = tables.pop("workload", {})
    tree = {
        "cluster": {"nodes": [{"name": "n", "gpus": 4}]},
        "workload": {"trace": str(trace), **workload},
        "policy": TURNS,
        "log": {"url": str(folder / "run.db")},
    }
    return make_config({**tree, **tables})


def ends_s(loaded: LoadedConfig) -> dict[str, float]:
    """Run it; return when each job ended, in seconds."""
    return {str(one.job_id): (one.end_us or 0) / 1e6 for one in simulate(loaded).stories()}


def verified(loaded: LoadedConfig) -> list[Event]:
    """Return the events of the log of a run, which must verify."""

    async def read() -> list[Event]:
        async with read_log(loaded.config.log.url) as reader:
            assert (await verify_log(reader, rebuild)).divergence is None
            return [event async for event in reader.events()]

    return asyncio.run(read())


Load = Callable[..., LoadedConfig]


def loader(folder: Path, head: str, config: str, rates: str) -> Load:
    """Return what loads a config in TOML, beside these rates and rows of jobs.

    Keywords with __ for dots set other values.
    """

    def load(rows: str, text: str = config, table: str = rates, **settings: str) -> LoadedConfig:
        (folder / "rates.json").write_text(table)
        (folder / "jobs.csv").write_text(f"{head}\n{rows}")
        (folder / "run.toml").write_text(text)
        pairs = [("--set", f"{key.replace('__', '.')}={value}") for key, value in settings.items()]
        return load_config(folder / "run.toml", pairs, {})

    return load


def fitted(loaded: LoadedConfig) -> list[tuple[str, ...]]:
    """Return which GPU types jobs accept once their table has been looked at."""
    return [job.spec.gpu_types for job in fit_to_table(loaded, load_jobs(loaded)).jobs]
