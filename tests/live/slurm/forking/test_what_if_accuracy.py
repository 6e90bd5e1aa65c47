"""What-if of the same policy against what happened inside Slurm (tests/live/what_if.py)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from shunter.events import AttemptStarted, Event, JobSuspended
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.pilots import PilotBench
from tests.live.slurm.site import served
from tests.live.what_if import LAS, assert_close, run_jobs

# Jobs of seconds: beside others on a full machine what a start takes on average tells nothing.
pytestmark = [
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.thorough,
    pytest.mark.xdist_group("slurm"),
]


@pytest.fixture
def bench(slurm: SlurmBench, tmp_path: Path) -> Iterator[PilotBench]:
    """A cluster, and a folder that is empty."""
    found = PilotBench(slurm, tmp_path)
    yield found
    found.clean()


async def ran(
    bench: PilotBench, patch: pytest.MonkeyPatch, mode: str, policy: dict[str, Any]
) -> list[Event]:
    async with served(bench, patch, "n1", mode=mode, policy=policy) as site:
        return await run_jobs(site)


@pytest.mark.parametrize(
    ("mode", "policy", "leaves"),
    [("pilot", LAS, JobSuspended), ("per-job", {"name": "fifo"}, AttemptStarted)],
    ids=["pilot", "per-job"],
)
def test_same_policy_is_within_five_percent_of_what_happened(
    bench: PilotBench,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    policy: dict[str, Any],
    leaves: type[Event],
) -> None:
    """Each job waits for seconds in Slurm's queue in per-job mode, which is in no other start."""
    events = anyio.run(ran, bench, monkeypatch, mode, policy)
    assert_close(bench.folder / "log.db", events, leaves)
