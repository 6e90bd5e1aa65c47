"""Answers of `why` on a whole log of the Philly trace under `las`, computed once more from events.

The job 31769 was once told that it starts "if 31716 or 32791 ends". Both ended, and it started 113
hours later. Skipped where the trace is not there.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.ask import fold_events
from shunter.ask.why import document, explain
from shunter.cli import app
from shunter.core import Job, State
from shunter.events import AllocationChanged, Event, JobId
from shunter.events.log import read_log
from shunter.run import rebuild

pytestmark = pytest.mark.fidelity

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT.parent / "shared" / "traces" / "philly.csv"
HOUR_US = 3_600_000_000
BOUNDS_GPU_US = (HOUR_US, 20 * HOUR_US)
ASKED = [("31769", 5350), ("31562", 5256), ("35213", 5940), ("54598", 20_000), ("80962", 200_000)]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not TRACE.is_file():
        pytest.skip("needs the public Philly trace as ../shared/traces/philly.csv")
    path = tmp_path_factory.mktemp("philly") / "las.db"
    config = str(ROOT / "examples" / "philly.toml")
    trace = f"workload.trace={TRACE}"
    done = CliRunner().invoke(app, ["simulate", config, "--set", trace, "--log", str(path)])
    assert "816703aab6e4" in done.stdout, done.output
    return path


@pytest.fixture(scope="module")
def events(log: Path) -> Sequence[Event]:
    async def read() -> list[Event]:
        async with read_log(str(log)) as reader:
            return [event async for event in reader.events()]

    return asyncio.run(read())


def said(log: Path, job: str, seq: int, at_us: int) -> dict[str, Any]:
    async def asked() -> dict[str, Any]:
        async with read_log(str(log)) as reader:
            return document(await explain(reader, JobId(job), seq, at_us, rebuild))

    return asyncio.run(asked())


@pytest.mark.parametrize(("job", "seq"), ASKED)
def test_claims_are_what_the_events_lead_to(
    log: Path, events: Sequence[Event], job: str, seq: int
) -> None:
    at_us = events[seq - 1].at_us
    found = said(log, job, seq, at_us)
    state = State()
    fold_events(state, events[: found["at"]["seq"]])

    def key(other: Job) -> tuple[int, int]:
        return bisect_right(BOUNDS_GPU_US, other.service_us(at_us)), other.ordinal

    mine = key(state.jobs[JobId(job)])
    waiting = [other for other in state.jobs.values() if other.is_eligible]
    running = [other for other in state.jobs.values() if other.allocation.shares]
    ahead = sorted((other for other in waiting if key(other) < mine), key=key)
    staying = sorted((other for other in running if key(other) < mine), key=key)
    behind = sum(other.gpus for other in running if key(other) > mine)
    rank, evidence = found["rank"], found["evidence"]
    assert (rank["position"], rank["waiting"]) == (len(ahead) + 1, len(waiting))
    assert rank["ahead"] == [other.job_id for other in ahead[:3]]
    for told, group in (("waiting_ahead", ahead), ("running_ahead", staying)):
        left = [state.durations_us[other.job_id] - other.done_us(at_us) for other in group]
        work = sum(us * other.spec.gpus for us, other in zip(left, group, strict=True))
        gpus = sum(other.spec.gpus for other in group)
        known = {
            "jobs": len(group),
            "gpus": gpus,
            "left_gpu_s": work / 1e6,
            "unknown": 0,
            "limited": 0,
        }
        assert rank[told] == known
    assert [each["id"] for each in evidence["blockers"]] == [
        other.job_id for other in reversed(staying[-3:])
    ]
    free = 400 - sum(other.gpus for other in running)
    needed = state.jobs[JobId(job)].spec.gpus
    assert (evidence["free"], evidence["behind"]) == (free, behind)
    assert evidence["missing"] == max(0, needed - free - behind)


@pytest.mark.parametrize(("job", "seq"), ASKED)
def test_what_became_of_it_is_told(log: Path, events: Sequence[Event], job: str, seq: int) -> None:
    at_us = events[seq - 1].at_us
    found = said(log, job, seq, at_us)
    starts = next(
        number
        for number, event in enumerate(events[found["at"]["seq"] :], found["at"]["seq"] + 1)
        if isinstance(event, AllocationChanged) and event.job_id == job and event.allocation.shares
    )

    assert (found["became"]["what"], found["became"]["seq"]) == ("started", starts)
    assert found["would_start_if"] == []


def test_the_victim_is_promised_nothing_and_told_when_it_started(log: Path) -> None:
    found = said(log, "31769", 5350, 1_807_920_000_000)

    assert found["rank"]["position"] == 23
    assert found["rank"]["score_in_words"] == "has used 20 GPU-hours, so it is in the third queue"
    assert found["needs_at_least"][0].startswith("5 more GPUs come free to it")
    assert "it got 8 GPUs at T+615:12:00 (e26147), 4d 17h later" in found["became"]["words"]
    assert [each["id"] for each in found["became"]["ended"]] == ["32791"]


def test_an_answer_within_the_round_that_starts_a_job_is_that_it_runs(
    log: Path, events: Sequence[Event]
) -> None:
    """The round's own event is asked for, right before the one that gives the job its GPUs."""
    found = said(log, "31769", 26_146, events[26_145].at_us)

    assert found["at"]["seq"] >= 26_147
    assert found["phase"] == "running"
