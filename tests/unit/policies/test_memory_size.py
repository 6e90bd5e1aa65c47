"""What a policy remembers is as large as what waits and runs, not as its history."""

import asyncio
from pathlib import Path

import pytest

from shunter.config import make_config
from shunter.events.log import Snapshot, read_log
from shunter.run import simulate

POLICIES = (
    *("fifo", "fifo_backfill", "fifo_easy", "las", "tiresias", "gittins", "shortest_expected"),
    *(
        "srtf",
        "sjf",
        "smallest",
        "drf",
        "tetris",
        "ftf",
        "allox",
        "max_min_fairness",
        "hierarchical",
    ),
)
SOLVED = ("allox", "max_min_fairness", "hierarchical")
"""Policies that solve programs, each of which takes longer than a round of the others."""
CLASSES_BYTES = 150
"""Room for classes of equal jobs that the longer run knows and the shorter one does not."""


async def last_snapshot(path: Path) -> Snapshot:
    async with read_log(str(path)) as reader:
        found = await reader.snapshot_at((await reader.head()).seq)
    assert found is not None
    return found


def kept(path: Path, name: str, jobs: int) -> tuple[int, int]:
    """Return how many bytes of state and memory are left once so many jobs have ended."""
    document = simulate(
        make_config(
            {
                "cluster": {"nodes": [{"name": "n", "count": 4, "gpus": 8}]},
                "workload": {"generate": {"jobs": jobs, "load": 0.7}},
                "policy": {"name": name},
                "log": {"url": str(path)},
            }
        )
    ).document
    assert document["jobs"]["submitted"] == jobs
    snapshot = asyncio.run(last_snapshot(path))
    return len(snapshot.state), len(snapshot.memory)


@pytest.mark.parametrize("name", POLICIES)
def test_neither_state_nor_memory_grows_with_the_jobs_that_ended(tmp_path: Path, name: str) -> None:
    """`two_level` alone is left out: it remembers users, by what it owes them."""
    jobs = 15 if name in SOLVED else 40
    few = kept(tmp_path / "few.db", name, jobs)
    many = kept(tmp_path / "many.db", name, 4 * jobs)
    assert many[0] < few[0] + CLASSES_BYTES
    assert many[1] < few[1] + CLASSES_BYTES
