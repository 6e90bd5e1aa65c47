"""The kept runs: made again under a hash seed of three, and decided again from their kept logs."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shunter.ask import Verdict, verify_log
from shunter.config import POLICIES
from shunter.core import state_digest
from shunter.events.log import import_jsonl, open_log, read_log
from shunter.run import rebuild
from tests.replay.golden_runs import DIGESTS, FOLDER, RUNS, SOLVED, SOLVED_FOLDER
from tests.slices import share

DIGESTS_KEPT: dict[str, dict[str, Any]] = json.loads(DIGESTS.read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all runs as a process under a hash seed of three makes them, and digests."""
    folder = tmp_path_factory.mktemp("runs")
    hash_seed = share(["0", "1", "2"])[0]
    subprocess.run(
        [sys.executable, "-m", "tests.replay.golden_runs", str(folder)],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=Path(__file__).parents[2],
        timeout=120,
    )
    return folder


def test_runs_come_out_the_same_under_any_hash_seed(made: Path) -> None:
    assert json.loads((made / DIGESTS.name).read_text()) == DIGESTS_KEPT


@pytest.mark.parametrize("name", RUNS)
def test_a_run_writes_the_very_events_that_are_kept(name: str, made: Path) -> None:
    assert (made / f"{name}.jsonl").read_bytes() == (FOLDER / f"{name}.jsonl").read_bytes()


async def verified(kept: bytes) -> tuple[Verdict, str]:
    """Decide a kept log again; return what that shows, and the digest of the log."""
    lines = kept.splitlines(keepends=True)
    async with open_log("memory:") as log:
        await import_jsonl(lines, log)
    async with read_log(log) as reader:
        return await verify_log(reader, rebuild), log.digest


@pytest.mark.parametrize("path", sorted((FOLDER / "earlier").iterdir()), ids=lambda path: path.stem)
def test_a_log_of_earlier_rules_is_decided_by_those_rules(path: Path) -> None:
    """They do not say `launches_first`, `full_waits` or `moves_evicted`: all was otherwise then."""
    verdict, _ = asyncio.run(verified(path.read_bytes()))

    assert verdict.divergence is None


@pytest.mark.parametrize("name", RUNS)
def test_a_kept_log_is_decided_again_to_the_same_end(name: str) -> None:
    verdict, digest = asyncio.run(verified((FOLDER / f"{name}.jsonl").read_bytes()))

    assert verdict.divergence is None
    assert state_digest(verdict.state) == DIGESTS_KEPT[name]["state"]
    assert digest == DIGESTS_KEPT[name]["log"]
    assert verdict.state.seq == DIGESTS_KEPT[name]["events"]


@pytest.mark.parametrize("name", SOLVED)
def test_what_solvers_found_is_taken_from_a_kept_log(name: str) -> None:
    verdict, _ = asyncio.run(verified((SOLVED_FOLDER / f"{name}.jsonl").read_bytes()))

    assert verdict.divergence is None
    assert verdict.decisions > 0


def test_every_policy_has_a_kept_log() -> None:
    """Those that play the public simulators have theirs in `tests/peers`."""
    kept = {table["policy"]["name"] for table in (*RUNS.values(), *SOLVED.values())}
    assert {name for name in POLICIES.names() if not name.endswith("_peer")} <= kept


def test_every_kept_log_belongs_to_a_run() -> None:
    assert sorted(path.stem for path in SOLVED_FOLDER.glob("*.jsonl")) == sorted(SOLVED)
    kept = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
    assert kept == sorted(RUNS) == sorted(DIGESTS_KEPT)
