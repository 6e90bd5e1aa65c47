"""A simulation that does to jobs what a live cluster does: by hand, and verified as its log is."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from shunter.ask import Verifier
from shunter.backends.simulated import Costs, Samples
from shunter.config import LoadedConfig, make_config, recorded_runtime
from shunter.core import ReleaseJob, SuspendJob
from shunter.errors import ConfigError
from shunter.events import (
    AttemptEnded,
    AttemptLost,
    JobContinued,
    JobFailed,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRetried,
    JobStopped,
    NodeLost,
    ProfileSampled,
    SchedulerStarted,
    SuspendMode,
)
from shunter.events.log import read_log
from shunter.run import simulate
from shunter.workloads import TraceJob
from tests.factories import World, job_id, servers, trace_job
from tests.replay.recording import Recorded, record
from tests.unit.backends.simulated.driving import dies, mishaps, returns

J0 = job_id(0)
S = 1_000_000
NO_TIME, SOME_TIME = Costs(), Costs(start_us=2 * S, suspend_us=S, resume_us=3 * S)
costs = pytest.mark.parametrize("costs", [NO_TIME, SOME_TIME])


def world(*jobs: TraceJob, costs: Costs = NO_TIME, live: bool = True, **fields: Any) -> World:
    return World(
        servers=servers(1),
        jobs=jobs,
        costs=costs,
        live_reactions=live,
        **fields,
    )


def sound(run: Recorded) -> Recorded:
    """Return a run whose log says nothing that the scheduler would not decide again."""
    assert Verifier(run.rebuild).take(run.events) is None
    return run


def at(run: Recorded, *kinds: type) -> list[int]:
    return [run.at(seq).at_us for seq in run.seqs(*kinds)]


def failing(**fields: Any) -> TraceJob:
    return trace_job(0, lasts=10 * S, ends="failed", **fields)


@costs
def test_failed_job_is_tried_again_from_its_last_checkpoint_and_then_has_failed(
    costs: Costs,
) -> None:
    run = sound(record(world(failing(retries=2, checkpoint_interval_us=4 * S), costs=costs)))
    # Ten seconds, of which eight are saved; after a second, two more, and after two again.
    start, resume = costs.start_us, costs.resume_us
    first = start + 10 * S
    second = first + S + resume + 2 * S
    third = second + 2 * S + resume + 2 * S
    assert at(run, AttemptEnded)[:2] == [first, second]
    assert at(run, JobRetried) == [first, second]
    assert at(run, JobFailed) == [third]
    assert len(run.seqs(JobHeld)) == len(run.seqs(JobReleased)) == 2


@pytest.mark.parametrize("retries", [0, 2])
def test_failure_is_the_end_where_the_trace_says_so(retries: int) -> None:
    run = sound(record(world(failing(retries=retries), live=False)))
    assert at(run, JobFailed) == [10 * S]
    assert run.seqs(JobRetried) == []


@pytest.mark.parametrize(("live", "waits_s"), [(True, 1), (False, 0)])
def test_job_that_is_lost_again_and_again_waits_longer_each_time(live: bool, waits_s: int) -> None:
    fails = mishaps(dies(0, 5 * S), returns(0, 6 * S), dies(0, 8 * S), returns(0, 8 * S + 1))
    run = sound(record(world(trace_job(0, lasts=30 * S), live=live, failures=fails)))
    assert at(run, NodeLost, AttemptLost) == [5 * S, 5 * S, 8 * S, 8 * S]
    assert len(run.seqs(JobHeld)) == waits_s
    back_us = 9 * S if waits_s else 8 * S + 1
    assert at(run, JobFinished) == [back_us + 30 * S]


@costs
def test_suspended_job_of_mode_stop_stands_still_on_its_gpus(costs: Costs) -> None:
    stops = trace_job(0, lasts=20 * S, suspend_mode=SuspendMode.stop)
    other = trace_job(1, lasts=5 * S)
    commands = (SuspendJob(8 * S, J0), ReleaseJob(30 * S, J0))
    run = sound(record(world(stops, other, costs=costs), "fifo", *commands))
    assert at(run, JobStopped) == [8 * S]
    assert at(run, JobContinued) == [30 * S]
    # It has worked since its start, and the other one waits for its GPU until its end.
    ended = 30 * S + 20 * S - (8 * S - costs.start_us)
    assert at(run, JobFinished) == [ended, ended + costs.start_us + 5 * S]


def test_suspended_job_of_mode_stop_leaves_where_the_trace_rules() -> None:
    stops = trace_job(0, lasts=20 * S, suspend_mode=SuspendMode.stop)
    other = trace_job(1, lasts=5 * S)
    commands = (SuspendJob(8 * S, J0), ReleaseJob(30 * S, J0))
    run = sound(record(world(stops, other, live=False), "fifo", *commands))
    assert run.seqs(JobStopped) == []
    assert at(run, JobFinished) == [13 * S, 50 * S]


def test_samples_are_facts_of_the_run_and_nothing_else_changes() -> None:
    job = trace_job(0, lasts=40 * S, total_steps=20)
    plain, sampled = (
        sound(record(world(job, live=False, samples=samples)))
        for samples in (Samples(), Samples(every_us=10 * S))
    )
    seqs = set(sampled.seqs(ProfileSampled))
    assert [sampled.at(seq).step for seq in sorted(seqs)] == [5, 10, 15]
    rest = [event for seq, event in enumerate(sampled.events, 1) if seq not in seqs]
    assert rest == list(plain.events)


def loaded(**simulation: object) -> LoadedConfig:
    return make_config(
        {
            "cluster": {"nodes": [{"name": "n[1-2]", "gpus": 4}]},
            "workload": {"generate": {"jobs": 40, "load": 2.0, "ends": {"failed": 0.4}}},
            "simulation": simulation,
        }
    )


def recorded(config: LoadedConfig, path: Path) -> dict[str, Any]:
    """Simulate a config into a log; return the config that the log records."""
    simulate(config.replaced({"log.url": str(path)}, "test"))

    async def first() -> str:
        async with read_log(str(path)) as reader:
            async for frame in reader.frames():
                started = next(iter(frame.events()))
                assert isinstance(started, SchedulerStarted)
                return started.config
        raise AssertionError("the log is empty")

    document: dict[str, Any] = json.loads(asyncio.run(first()))
    return document


def test_log_records_what_it_was_simulated_with_and_nothing_of_what_it_was_not(
    tmp_path: Path,
) -> None:
    plain = recorded(loaded(), tmp_path / "plain.db")
    asked = recorded(
        loaded(reactions="live", samples={"every": "5m", "noise": 0.1}), tmp_path / "live.db"
    )
    assert set(asked) == set(plain)
    assert set(asked["simulation"]) - set(plain["simulation"]) == {"reactions", "samples"}
    assert not recorded_runtime(json.dumps(plain)).rules.reacts_as_live
    assert recorded_runtime(json.dumps(asked)).rules.reacts_as_live


@pytest.mark.parametrize(
    "simulation",
    [
        {"reactions": "dead"},
        {"samples": {"every": "5m", "noise": 1.5}},
        {"samples": {"every": "-5m"}},
        {"samples": {"every": "5m"}, "lease": {"round_ends": "last_gang"}},
        {"reactions": "live", "lease": {"round_ends": "last_gang"}},
    ],
)
def test_what_cannot_be_is_refused_with_its_key(simulation: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="simulation"):
        loaded(**simulation)
