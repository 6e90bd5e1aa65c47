"""Live logs of jobs with contracts: their work is counted as the simulated world spends it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shunter.ask import observed_trace
from shunter.ask.forks import (
    Question,
    Scenario,
    Wishes,
    answer,
    measure,
    read_history,
    run_scenario,
)
from shunter.config import make_config
from shunter.core import JobResult
from shunter.events import JobId
from shunter.events.log import read_log
from shunter.run import simulate
from shunter.workloads import Trace
from shunter.workloads.formats import write_trace
from tests.unit.app.forking.live_logs import config, live_log

S = 1_000_000
PACKED: dict[str, Any] = {"placement": "topology", "topology": {"mode": "pack"}, "trigger": "event"}
FIFO: dict[str, Any] = {"name": "fifo", **PACKED}
LAS: dict[str, Any] = {"name": "las", "params": {"las": {"queues_gpu_s": [40, 200]}}, **PACKED}
SHAPE = "j1,0,10,finished,4,ana,,4:1.0|2+2:0.5,"
LEVEL = "j2,1,10,finished,4,bo,rack:0.8,,"
NONE = "j3,2,10,finished,4,cy,,,"
CURVES = [SHAPE, LEVEL, NONE]
# j4 has a server with j5, which comes and goes while it runs; j6 is beside nobody.
BESIDE = [
    "j4,0,20,finished,1,ana,,,0.5",
    "j5,5,6,finished,1,bo,,,",
    "j6,6,4,finished,2,cy,,,0.25",
]


@pytest.mark.rotating("seq")
@pytest.mark.parametrize("rows", [CURVES, BESIDE], ids=["curves", "neighbours"])
@pytest.mark.parametrize("policy", [FIFO, LAS], ids=["fifo", "las"])
@pytest.mark.parametrize("seq", [6, 9, 12, 15])
def test_same_policy_takes_as_long_as_happened(
    seq: int, policy: dict[str, Any], rows: list[str], tmp_path: Path
) -> None:
    log = live_log(tmp_path, config(tmp_path, policy, rows))

    played = run_scenario(Scenario(log, f"e{seq}"))

    assert played.stories
    assert ends(played.stories.values()) == pytest.approx(ends(played.recorded.values()), abs=5)
    assert any("as their contracts say" in each for each in played.assumptions)


def test_a_nearer_placement_is_faster_as_the_contract_says(tmp_path: Path) -> None:
    """It ran 20 s in halves, which is 10 s of work: beside each other its GPUs take 10 s."""
    log = live_log(tmp_path, config(tmp_path, FIFO, [NONE, SHAPE.replace("j1,0", "j4,3")]))
    wishes = Wishes(added=("name=big,gpus=4,type=gpu",))

    played = run_scenario(Scenario(log, "e6", wishes))

    assert _ran_us(played.stories[JobId("j4")]) == 12 * S
    assert _ran_us(played.recorded[JobId("j4")]) == 22 * S


def _ran_us(story: JobResult | None) -> int:
    assert story is not None
    assert story.end_us is not None
    assert story.first_start_us is not None
    return story.end_us - story.first_start_us


@pytest.mark.parametrize("rows", [CURVES, BESIDE], ids=["curves", "neighbours"])
@pytest.mark.parametrize("policy", [FIFO, LAS], ids=["fifo", "las"])
def test_a_trace_of_a_live_log_has_the_work_and_takes_as_long(
    policy: dict[str, Any], rows: list[str], tmp_path: Path
) -> None:
    tree = config(tmp_path, policy, rows)
    log = live_log(tmp_path, tree)

    trace = asyncio.run(trace_of(log))
    observed = tmp_path / "observed.csv"
    write_trace(trace, observed, "canonical-csv")
    again = simulate(make_config({**tree, "workload": {"trace": str(observed)}}, "test"))

    jobs, (happened, simulated) = trace.jobs, (asyncio.run(ends_in(log)), ends(again.stories()))
    assert simulated == pytest.approx(happened, abs=5)
    given = [int(row.split(",")[2]) * S for row in rows]
    assert [job.duration_us for job in jobs] == pytest.approx(given, abs=5)


def test_what_others_worked_is_told_at_full_speed(tmp_path: Path) -> None:
    """The start counts too, as the state counts it, but not the time that the contract took."""
    log = live_log(tmp_path, config(tmp_path, FIFO, CURVES))

    assert asyncio.run(worked_in(log)) == pytest.approx([10 * S, 10 * S, 10 * S], abs=5)


@pytest.mark.parametrize("again", [SHAPE, LEVEL, NONE])
def test_forecast_knows_how_long_a_job_takes_where_it_is(again: str, tmp_path: Path) -> None:
    """The log ends while a job like five earlier ones runs: they take as long in the same place."""
    alike = again.split(",", 2)[2]
    earlier = [f"j{number},{30 * number},{alike}" for number in range(1, 6)]
    tree = config(tmp_path, FIFO, [*earlier, f"j9,200,{alike}"])
    ran_us = asyncio.run(end_of(live_log(tmp_path, tree)))
    log = live_log(tmp_path, tree, until_us=204 * S)

    told = asyncio.run(answer(Question(log, now_us=204 * S)))

    (job,) = told.document["jobs"]
    assert job["id"] == "j9"
    assert job["end"]["p50_us"] == pytest.approx(ran_us, abs=5)
    contracts = [each for each in told.document["assumptions"] if "as their contracts say" in each]
    assert len(contracts) == (again is not NONE)


async def end_of(log: str) -> int:
    """Return when the last event of a log was."""
    async with read_log(log) as reader:
        return (await read_history(reader)).state.now_us


def ends(stories: Any) -> dict[str, int]:
    """Return when jobs ended."""
    return {story.job_id: story.end_us for story in stories}


async def trace_of(log: str) -> Trace:
    """Return the jobs of a log as a trace."""
    async with read_log(log) as reader:
        return (await observed_trace(reader))[0]


async def ends_in(log: str) -> dict[str, int]:
    """Return when the jobs of a log ended."""
    async with read_log(log) as reader:
        jobs = (await measure(reader)).observed.jobs
    return {job.job_id: left_us for job in jobs if (left_us := job.seen[-1].ended_us)}


async def worked_in(log: str) -> list[int]:
    """Return what jobs worked, as forecasts learn it."""
    async with read_log(log) as reader:
        history = await read_history(reader)
        history.slowed = (await measure(reader)).slowed
        state = history.state
        return [each.work_us for each in history.worked_before(state, state.now_us, 0)]
