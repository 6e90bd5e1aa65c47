import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from shunter.config import LoadedConfig, load_config, make_config
from shunter.core import state_digest
from shunter.errors import LogError, LogExistsError, TraceError
from shunter.events import SchedulerStarted, SchedulerStopped
from shunter.events.log import read_log
from shunter.run import load_jobs, rebuild, set_up, simulate, simulation

Generated = Callable[..., LoadedConfig]
WriteConfig = Callable[[str], Path]

TIMES = ["mean", "p50", "p90", "p95", "p99", "max"]


def _load(path: Path, *settings: str) -> LoadedConfig:
    return load_config(path, [("--set", setting) for setting in settings], {})


def _document(loaded: LoadedConfig) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(simulate(loaded).document, allow_nan=False))
    return document


async def _events(path: Path) -> list[Any]:
    async with read_log(str(path)) as reader:
        return [event async for frame in reader.frames() for event in frame.events()]


def test_the_document_has_the_names_that_were_promised(generated: Generated) -> None:
    document = _document(generated())

    assert set(document) >= {
        "schema",
        "evidence",
        "policy",
        "oracle",
        "seed",
        "cluster",
        "trace",
        "jobs",
        "jct_s",
        "wait_s",
        "makespan_s",
        "gpu_utilisation",
        "preemptions",
        "migrations",
        "rounds",
        "events",
        "log",
        "state_digest",
        "elapsed",
    }
    assert document["evidence"] == "simulated"
    assert document["cluster"] == {"gpus": 8, "nodes": 2}
    assert set(document["trace"]) >= {"source", "jobs", "digest"}
    counts = ["submitted", "finished", "failed", "cancelled", "rejected", "unfinished"]
    assert list(document["jobs"]) == counts
    assert list(document["jct_s"]) == list(document["wait_s"]) == TIMES
    assert list(document["rounds"]) == ["planned", "skipped"]
    assert list(document["log"]) == ["url", "digest"]
    assert list(document["elapsed"]) == ["wall_s", "cpu_s", "startup_cpu_s", "parse_cpu_s"]


def test_every_job_that_went_in_comes_out(config_file: Path) -> None:
    jobs = _document(_load(config_file))["jobs"]

    assert jobs == {
        "submitted": 5,
        "finished": 2,
        "failed": 1,
        "cancelled": 1,
        "rejected": 1,
        "unfinished": 0,
    }


def test_completion_and_waiting_are_those_of_finished_jobs(config_file: Path) -> None:
    document = _document(_load(config_file))

    # Job a runs from 0 to 100, job b waits for it from 10 on and runs to 150.
    assert document["jct_s"]["mean"] == 120.0
    assert document["wait_s"]["mean"] == 45.0
    assert document["jct_s"]["max"] == 140.0
    assert document["makespan_s"] == 150.0
    assert document["gpu_utilisation"] == pytest.approx((800 + 200 + 20) / (8 * 150))


def test_what_does_not_exist_is_null(config_file: Path) -> None:
    document = _document(_load(config_file, "workload.rows=[2, 3]"))

    assert document["jobs"]["rejected"] == 1
    assert document["jct_s"] == dict.fromkeys(TIMES)
    assert document["gpu_utilisation"] is None
    assert document["makespan_s"] == 0.0


def test_a_job_over_its_time_limit_counts_as_failed(write_config: WriteConfig) -> None:
    path = write_config(
        '[[cluster.nodes]]\nname = "a"\ngpus = 1\n[workload]\ntrace = "limit.csv"\n'
    )
    (path.parent / "limit.csv").write_text(
        "job_id,submit_s,gpus,duration_s,time_limit_s\na,0,1,1000,60\nb,0,1,30,60\n"
    )

    result = simulate(_load(path))

    assert result.document["jobs"]["failed"] == 1
    assert {story.job_id: story.status for story in result.stories()} == {
        "a": "timeout",
        "b": "finished",
    }


def test_queues_bound_and_refuse(config_file: Path) -> None:
    loaded = _load(config_file, "queues.default.users=['ana']", "queues.default.quota_gpus=8")

    result = simulate(loaded)

    assert {story.job_id: story.status for story in result.stories()} == {
        "a": "finished",
        "b": "rejected",
        "c": "rejected",
        "d": "failed",
        "e": "cancelled",
    }


def test_equal_runs_write_equal_logs_wherever_they_go(generated: Generated, tmp_path: Path) -> None:
    digests = [
        _document(generated(policy__name="las", log__url=url))["log"]["digest"]
        for url in ("none:", "memory:", str(tmp_path / "a.db"), str(tmp_path / "b.db"))
    ]

    assert len(set(digests)) == 1


def test_another_seed_writes_another_log(generated: Generated) -> None:
    first, second = (_document(generated(seed=seed)) for seed in (1, 2))

    assert first["log"]["digest"] != second["log"]["digest"]


def test_where_a_trace_lies_changes_nothing(config_file: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (moved / "jobs.csv").write_bytes((config_file.parent / "jobs.csv").read_bytes())

    here = _document(_load(config_file))
    there = _document(_load(config_file, f"workload.trace={moved / 'jobs.csv'}"))

    assert here["log"]["digest"] == there["log"]["digest"]


def test_naming_a_format_that_is_guessed_anyway_changes_nothing(config_file: Path) -> None:
    guessed = _document(_load(config_file))
    named = _document(_load(config_file, "workload.format=canonical-csv", "workload.rows=[0, 5]"))

    assert guessed["log"]["digest"] == named["log"]["digest"]


@pytest.mark.asyncio
async def test_a_log_opens_with_who_decides_and_closes_with_a_stop(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await _simulate_into(path)

    events = await _events(path)

    assert isinstance(events[0], SchedulerStarted)
    assert isinstance(events[-1], SchedulerStopped)
    assert events[0].simulated
    assert [name for name, _ in events[0].digests] == ["trace"]


async def _simulate_into(path: Path) -> None:
    """Run in a thread: a simulation brings its own event loop."""
    import anyio.to_thread

    from shunter.config import make_config

    loaded = make_config(
        {
            "cluster": {"nodes": [{"name": "a", "gpus": 4}]},
            "workload": {"generate": {"jobs": 30}},
            "log": {"url": str(path), "snapshot_every": 50},
        }
    )
    await anyio.to_thread.run_sync(lambda: simulate(loaded))


@pytest.mark.asyncio
async def test_snapshots_are_taken_as_often_as_wanted(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await _simulate_into(path)

    async with read_log(str(path)) as reader:
        snapshots = await reader.snapshots()
        head = await reader.head()

    assert len(snapshots) == head.seq // 50 + 1 or len(snapshots) >= 3
    assert snapshots[-1].seq == head.seq


def seqs_of_snapshots(path: Path) -> list[int]:
    async def found() -> list[int]:
        async with read_log(str(path)) as reader:
            return [each.seq for each in await reader.snapshots()]

    return asyncio.run(found())


@pytest.mark.parametrize(("events", "by_job"), [(100, 0), (100, 2), (1, 3)])
def test_snapshots_by_themselves_lie_as_far_apart_as_the_state_is_large(
    generated: Generated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    events: int,
    by_job: int,
) -> None:
    monkeypatch.setattr(simulation, "SNAPSHOT_EVENTS", events)
    monkeypatch.setattr(simulation, "JOB_EVENTS", by_job)
    path = tmp_path / "run.db"
    document = _document(generated(workload__generate__jobs=400, log__url=str(path)))

    *within, last = seqs_of_snapshots(path)

    assert last == document["events"]
    assert len(within) >= 3
    gaps = [later - sooner for sooner, later in pairwise([0, *within])]
    assert min(gaps) >= events
    if not by_job:
        assert max(gaps) < events + 50  # a step makes no more
    else:
        assert max(gaps) >= 2 * min(gaps), "where more jobs are there, they are further apart"


def test_snapshots_change_no_event(generated: Generated) -> None:
    bare, with_snapshots = (
        _document(generated(log__snapshot_every=every, log__url="memory:")) for every in (0, 20)
    )

    assert bare["log"]["digest"] == with_snapshots["log"]["digest"]
    assert bare["state_digest"] == with_snapshots["state_digest"]


def test_progress_changes_nothing_and_counts_up(generated: Generated) -> None:
    told: list[tuple[int, int]] = []

    result = simulate(
        generated(workload__generate__jobs=1500, policy__trigger="event"),
        report=lambda done, total: told.append((done, total)),
    )

    plain = _document(generated(workload__generate__jobs=1500, policy__trigger="event"))
    assert told == sorted(told)
    assert told[-1][1] == 1500
    assert result.document["log"]["digest"] == plain["log"]["digest"]


def test_the_state_digest_is_that_of_the_last_state(generated: Generated) -> None:
    result = simulate(generated())

    assert result.document["state_digest"] == state_digest(result.state)


def test_a_log_that_exists_is_left_alone(config_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    loaded = _load(config_file, f"log.url={path}")
    simulate(loaded)
    before = path.read_bytes()

    with pytest.raises(LogExistsError):
        simulate(loaded)

    assert path.read_bytes() == before


def test_a_log_is_replaced_where_that_is_asked_for(config_file: Path, tmp_path: Path) -> None:
    loaded = _load(config_file, f"log.url={tmp_path / 'run.db'}")
    first = simulate(loaded).document

    second = simulate(loaded, overwrite=True).document

    assert first["log"]["digest"] == second["log"]["digest"]


def test_a_wrong_trace_replaces_no_log(config_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    loaded = _load(config_file, f"log.url={path}")
    simulate(loaded)
    before = path.read_bytes()
    (config_file.parent / "jobs.csv").write_text("job_id,submit_s\n")

    with pytest.raises(TraceError):
        simulate(loaded, overwrite=True)

    assert path.read_bytes() == before


def test_a_place_where_no_log_can_be_is_an_error(config_file: Path, tmp_path: Path) -> None:
    with pytest.raises(LogError):
        simulate(_load(config_file, f"log.url={tmp_path / 'no' / 'folder' / 'run.db'}"))


def test_a_missing_trace_says_how_to_name_one(config_file: Path) -> None:
    (config_file.parent / "jobs.csv").unlink()

    with pytest.raises(TraceError, match=r"run\.toml:9: workload\.trace: there is no file .*--set"):
        simulate(_load(config_file))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("job_id,submit_s,gpus,duration_s\n", "no usable rows"),
        ("job_id,submit_s,gpus\na,0,1\n", "cannot tell the format|duration_s"),
        ("job_id,submit_s,gpus,duration_s\na,0,1,5\na,0,1,5\n", "ids must be unique"),
        ("job_id,submit_s,gpus,duration_s\na,0,1,nan\n", "not a number"),
        ("job_id,submit_s,gpus,duration_s\na,0,-1,5\n", "negative"),
    ],
)
def test_a_wrong_trace_is_a_typed_error(content: str, message: str, config_file: Path) -> None:
    (config_file.parent / "jobs.csv").write_text(content)

    with pytest.raises(TraceError, match=message):
        simulate(_load(config_file))


def test_speeds_of_gpu_types_change_how_long_jobs_run(config_file: Path) -> None:
    fast = _document(_load(config_file, "simulation.speeds.relative.gpu=2.0"))

    assert fast["jct_s"]["max"] == pytest.approx(50 + 25 - 10)


def test_costs_and_failures_reach_the_simulated_world(generated: Generated) -> None:
    costs = _document(generated(simulation__costs__start="10m"))
    failures = _document(generated(simulation__failures__mtbf="4h"))
    plain = _document(generated())

    assert costs["jct_s"]["mean"] > plain["jct_s"]["mean"]
    assert failures["log"]["digest"] != plain["log"]["digest"]
    assert sum(failures["jobs"].values()) == 2 * 60


@pytest.mark.parametrize(("level", "moves"), [("", False), ("server", True)])
def test_record_says_that_evicted_jobs_are_moved_where_places_matter(
    level: str, moves: bool, tmp_path: Path
) -> None:
    """Where all jobs ask for a number of GPUs alone, records are what they were before."""
    trace = tmp_path / "jobs.csv"
    trace.write_text(f"job_id,submit_s,gpus,duration_s,max_level\na,0,2,60,{level}\n")
    config = {
        "cluster": {"nodes": [{"name": "n[1-2]", "gpus": 4}]},
        "workload": {"trace": str(trace)},
        "policy": {"name": "srtf"},
    }
    loaded = make_config(config, "test")

    setup = set_up(loaded, load_jobs(loaded))

    (started, *_) = setup.opening(1)
    assert isinstance(started, SchedulerStarted)
    assert setup.runtime.rules.moves_evicted is moves
    assert ("moves_evicted" in json.loads(started.config)) is moves
    assert rebuild(started)[1].moves_evicted is moves
