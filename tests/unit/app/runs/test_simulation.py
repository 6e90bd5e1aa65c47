"""Whole simulated runs: their document, their log, their jobs, and what ends them at once."""

import asyncio
import csv
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from shunter.config import LoadedConfig, load_config
from shunter.core import state_digest
from shunter.errors import LogError, LogExistsError, ShunterError, TraceError
from shunter.events import Event, SchedulerStarted, SchedulerStopped
from shunter.events.log import Snapshot, read_log
from shunter.run import (
    COLUMNS,
    RunResult,
    load_jobs,
    rebuild,
    set_up,
    simulate,
    simulation,
    write_jobs,
)
from tests.unit.app.conftest import Generated
from tests.unit.app.traces import config_of

TIMES = ["mean", "p50", "p90", "p95", "p99", "max"]
OUTCOMES = ["submitted", "finished", "failed", "cancelled", "rejected", "unfinished"]
KEYS = {
    *("schema", "evidence", "policy", "oracle", "seed", "cluster", "trace", "jobs", "jct_s"),
    *("wait_s", "makespan_s", "gpu_utilisation", "preemptions", "migrations", "rounds", "events"),
    *("log", "state_digest", "elapsed"),
}
HEAD = "job_id,submit_s,gpus,duration_s"


def _load(path: Path, *settings: str) -> LoadedConfig:
    return load_config(path, [("--set", setting) for setting in settings], {})


def _document(loaded: LoadedConfig) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(simulate(loaded).document, allow_nan=False))
    return document


def _statuses(result: RunResult) -> dict[str, str]:
    return {story.job_id: story.status for story in result.stories()}


def _logged(path: Path) -> tuple[list[Event], list[Snapshot]]:
    async def read() -> tuple[list[Event], list[Snapshot]]:
        async with read_log(str(path)) as reader:
            return [event async for event in reader.events()], list(await reader.snapshots())

    return asyncio.run(read())


def test_the_document_has_the_names_that_were_promised(generated: Generated) -> None:
    document = _document(generated())

    assert set(document) >= KEYS
    assert document["evidence"] == "simulated"
    assert document["cluster"] == {"gpus": 8, "nodes": 2}
    assert set(document["trace"]) >= {"source", "jobs", "digest"}
    assert list(document["jobs"]) == OUTCOMES
    assert list(document["jct_s"]) == list(document["wait_s"]) == TIMES
    assert list(document["rounds"]) == ["planned", "skipped"]
    assert list(document["log"]) == ["url", "digest"]
    assert list(document["elapsed"]) == ["wall_s", "cpu_s", "startup_cpu_s", "parse_cpu_s"]


def test_all_jobs_are_counted_and_times_are_those_of_finished_ones(config_file: Path) -> None:
    """Job a runs from 0 to 100, job b waits for it from 10 on and runs to 150."""
    document = _document(_load(config_file))

    assert document["jobs"] == dict(zip(OUTCOMES, (5, 2, 1, 1, 1, 0), strict=True))
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


def test_a_job_over_its_time_limit_counts_as_failed(tmp_path: Path) -> None:
    rows = ("a,0,1,1000,60", "b,0,1,30,60")
    result = simulate(config_of(tmp_path, f"{HEAD},time_limit_s", *rows))

    assert result.document["jobs"]["failed"] == 1
    assert _statuses(result) == {"a": "timeout", "b": "finished"}


def test_queues_bound_and_refuse(config_file: Path) -> None:
    loaded = _load(config_file, "queues.default.users=['ana']", "queues.default.quota_gpus=8")

    ends = ("finished", "rejected", "rejected", "failed", "cancelled")
    assert _statuses(simulate(loaded)) == dict(zip("abcde", ends, strict=True))


def test_equal_runs_write_equal_logs_wherever_they_go(generated: Generated, tmp_path: Path) -> None:
    digests = [
        _document(generated(policy__name="las", log__url=url))["log"]["digest"]
        for url in ("none:", "memory:", str(tmp_path / "a.db"), str(tmp_path / "b.db"))
    ]
    other = _document(generated(policy__name="las", seed=1, log__url="none:"))

    assert len(set(digests)) == 1
    assert other["log"]["digest"] != digests[0]


@pytest.mark.parametrize(
    "settings",
    [
        ("workload.trace={elsewhere}/jobs.csv",),
        ("workload.format=canonical-csv", "workload.rows=[0, 5]"),
    ],
    ids=["where the trace lies", "a format that is guessed anyway"],
)
def test_log_does_not_depend_on(
    settings: tuple[str, ...], config_file: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "jobs.csv").write_bytes((config_file.parent / "jobs.csv").read_bytes())

    plain = _document(_load(config_file))
    other = _document(_load(config_file, *(each.format(elsewhere=elsewhere) for each in settings)))

    assert plain["log"]["digest"] == other["log"]["digest"]


def test_a_log_opens_with_who_decides_and_closes_with_a_stop(
    generated: Generated, tmp_path: Path
) -> None:
    """With a last snapshot of all that happened."""
    path = tmp_path / "run.db"
    simulate(generated(log__url=str(path), log__snapshot_every=50))

    events, snapshots = _logged(path)

    started = events[0]
    assert isinstance(started, SchedulerStarted)
    assert isinstance(events[-1], SchedulerStopped)
    assert started.simulated
    assert [name for name, _ in started.digests] == ["trace"]
    assert len(snapshots) == len(events) // 50 + 1 or len(snapshots) >= 3
    assert snapshots[-1].seq == len(events)


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

    *within, last = [each.seq for each in _logged(path)[1]]

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
        simulate(generated(log__snapshot_every=every, log__url="memory:")) for every in (0, 20)
    )

    assert bare.document["log"]["digest"] == with_snapshots.document["log"]["digest"]
    digests = {bare.document["state_digest"], with_snapshots.document["state_digest"]}
    assert digests == {state_digest(bare.state)}


def test_progress_changes_nothing_and_counts_up(generated: Generated) -> None:
    told: list[tuple[int, int]] = []
    loaded = generated(workload__generate__jobs=1100, policy__trigger="event")

    result = simulate(loaded, report=lambda done, total: told.append((done, total)))

    assert told == sorted(told)
    assert told[-1][1] == 1100
    assert result.document["log"]["digest"] == _document(loaded)["log"]["digest"]


def test_a_log_that_exists_is_replaced_only_where_that_is_asked_for_and_jobs_are_there(
    config_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.db"
    loaded = _load(config_file, f"log.url={path}")
    first = simulate(loaded).document
    before = path.read_bytes()
    with pytest.raises(LogExistsError):
        simulate(loaded)
    assert path.read_bytes() == before

    second = simulate(loaded, overwrite=True).document

    assert first["log"]["digest"] == second["log"]["digest"]
    before = path.read_bytes()
    (config_file.parent / "jobs.csv").write_text("job_id,submit_s\n")
    with pytest.raises(TraceError):
        simulate(loaded, overwrite=True)
    assert path.read_bytes() == before


def test_a_place_where_no_log_can_be_is_an_error(config_file: Path, tmp_path: Path) -> None:
    with pytest.raises(LogError):
        simulate(_load(config_file, f"log.url={tmp_path / 'no' / 'folder' / 'run.db'}"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"run\.toml:9: workload\.trace: there is no file .*--set"),
        ("", "is empty"),
        (f"{HEAD}\n", "no usable rows"),
        ("job_id,submit_s,gpus\na,0,1\n", "cannot tell the format|duration_s"),
        (f"{HEAD}\na,0,1,5\na,0,1,5\n", "ids must be unique"),
        (f"{HEAD}\na,0,1,nan\n", "not a number"),
        (f"{HEAD}\na,0,-1,5\n", "negative"),
    ],
)
def test_a_wrong_trace_is_a_typed_error(
    content: str | None, message: str, config_file: Path
) -> None:
    trace = config_file.parent / "jobs.csv"
    trace.unlink() if content is None else trace.write_text(content)

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
    srtf = {"name": "srtf"}
    loaded = config_of(tmp_path, f"{HEAD},max_level", f"a,0,2,60,{level}", policy=srtf)

    setup = set_up(loaded, load_jobs(loaded))

    (started, *_) = setup.opening(1)
    assert isinstance(started, SchedulerStarted)
    assert setup.runtime.rules.moves_evicted is moves
    assert ("moves_evicted" in json.loads(started.config)) is moves
    assert rebuild(started)[1].moves_evicted is moves


def test_each_job_has_a_row_in_the_order_of_the_trace(config_file: Path, tmp_path: Path) -> None:
    result = simulate(load_config(config_file, [], {}))
    path = tmp_path / "out.csv"

    write_jobs(path, result.stories(), 5)

    header, *rows = path.read_text().splitlines()
    assert header == (
        "job_id,user,gpus,submit_s,first_start_s,finish_s,jct_s,wait_s,attained_gpu_s,"
        "preemptions,migrations,status"
    )
    assert rows == [
        "a,ana,8,0,0,100,100,0,800,0,0,finished",
        "b,bo,4,10,100,150,140,90,200,0,0,finished",
        "c,bo,16,20,,,,,0,0,0,rejected",
        "d,ana,1,30,100,110,80,70,10,0,0,failed",
        "e,ana,1,40,100,110,70,60,10,0,0,cancelled",
    ]


def test_rows_add_up_to_the_document(generated: Generated, tmp_path: Path) -> None:
    result = simulate(generated(policy__name="las", policy__params__las__queues_gpu_s=["1m"]))
    path = tmp_path / "out.csv"

    write_jobs(path, result.stories(), 60)

    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert sum(int(row["preemptions"]) for row in rows) == result.document["preemptions"]
    mean = sum(float(row["jct_s"]) for row in rows) / 60
    assert mean == pytest.approx(result.document["jct_s"]["mean"])


def test_a_file_that_cannot_be_written_is_an_error() -> None:
    with pytest.raises(ShunterError, match="cannot write /dev/full: No space left"):
        write_jobs(Path("/dev/full"), [], 0)
