"""Reports, tables and traces of a live run in which everything happens that ever does."""

import asyncio
import json
from collections import Counter, defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.core.fold import replay
from shunter.events import Event
from shunter.events.log import open_log
from tests.replay.eventful_run import eventful

run = CliRunner().invoke


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Event]]:
    path, events = tmp_path_factory.mktemp("eventful") / "run.db", list(eventful().events)

    async def write() -> None:
        async with open_log(str(path)) as opened:
            opened.append(events)

    asyncio.run(write())
    return str(path), events


def reported(url: str) -> dict[str, Any]:
    done = run(app, ["report", url, "--json"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["runs"]
    assert isinstance(found, dict)
    return found


def test_report_is_that_of_a_live_run(log: tuple[str, list[Event]]) -> None:
    found = reported(log[0])
    state = replay(log[1])
    assert found["evidence"] == "live"
    assert found["counts"]["submitted"] == state.submitted
    assert found["counts"]["unfinished"] == len(state.jobs)
    assert found["preemptions"] == sum(found["curves"]["preempted"])


def test_what_jobs_hold_is_what_the_fold_says(log: tuple[str, list[Event]]) -> None:
    found, state = reported(log[0]), replay(log[1])
    held = Counter[str]()
    for row in found["gantt"]["rows"]:
        for length, job in zip(row["slices"][1::3], row["slices"][2::3], strict=True):
            held[found["jobs_by_ordinal"]["ids"][job]] += length * found["gantt"]["tick_us"]
    open_ones = {str(job.job_id): job.service_us(state.now_us) for job in state.jobs.values()}
    ticks = found["gantt"]["tick_us"] * 200
    assert all(abs(held[name] - us) <= ticks for name, us in open_ones.items())


def test_page_is_written(log: tuple[str, list[Event]], tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert run(app, ["report", log[0], "-o", str(target)]).exit_code == 0
    assert "live" in target.read_text()


def test_it_is_the_same_as_itself(log: tuple[str, list[Event]]) -> None:
    assert run(app, ["diff", log[0], log[0]]).exit_code == 0


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow: the extra `parquet`")
def test_attempts_lie_side_by_side(log: tuple[str, list[Event]], tmp_path: Path) -> None:
    from pyarrow import parquet

    folder = tmp_path / "tables"
    done = run(app, ["log", "export", log[0], "--parquet", str(folder)])
    assert done.exit_code == 0, done.output
    by_job: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for row in parquet.read_table(folder / "attempts.parquet").to_pylist():
        by_job[row["job_id"]].append((row["launched_us"], row["ended_us"]))
        assert row["started_us"] is None or row["launched_us"] <= row["started_us"]
    for spans in by_job.values():
        ends = [ended_us for _, ended_us in spans]
        assert all(
            end is not None and end <= began
            for end, (began, _) in zip(ends, spans[1:], strict=False)
        )
    jobs = parquet.read_table(folder / "jobs.parquet").to_pylist()
    ran = {row["job_id"] for row in jobs if row["first_start_us"] is not None}
    assert ran == set(by_job)
