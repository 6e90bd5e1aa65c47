"""Tables in Parquet files, read back and recomputed from the events and the simulation."""

from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from tests.unit.app.recounted import RUNS, Recounted, recounted

needs_pyarrow = pytest.mark.skipif(
    find_spec("pyarrow") is None, reason="needs pyarrow: the extra `parquet`"
)
pytestmark = needs_pyarrow

Row = dict[str, Any]
NAMES = ("jobs", "attempts", "allocations", "decisions", "samples")


class Exported:
    """A run, its events, and its tables as rows."""

    def __init__(self, run: Recounted, folder: Path) -> None:
        run.told("log", "export", run.url, "--parquet", str(folder))
        self.folder, self.result, self.events = folder, run.result, run.events
        self.tables = {name: _rows(folder / f"{name}.parquet") for name in NAMES}


def _rows(path: Path) -> list[Row]:
    from pyarrow import parquet

    rows: list[Row] = parquet.read_table(path).to_pylist()
    return rows


@pytest.fixture(scope="module", params=[name for name in RUNS if name != "packed"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    run = recounted(request.param, tmp_path_factory)
    return Exported(run, tmp_path_factory.mktemp("tables"))


def test_jobs_are_those_of_the_simulation(exported: Exported) -> None:
    stories = sorted(exported.result.stories(), key=lambda story: story.ordinal)
    names = ("job_id", "user", "gpus", "status", "submit_us", "first_start_us", "end_us")
    more = ("jct_us", "wait_us", "held_us", "service_gpu_us", "preemptions", "migrations")
    for row, story in zip(exported.tables["jobs"], stories, strict=True):
        assert {name: row[name] for name in (*names, *more)} == {
            name: getattr(story, name) for name in (*names, *more)
        }
    submitted = [event for event in exported.events if event["kind"] == "JobSubmitted"]
    assert [row["duration_us"] for row in exported.tables["jobs"]] == [
        event.get("duration_us") for event in submitted
    ]


def test_attempts_are_what_each_job_held(exported: Exported) -> None:
    held: dict[str, int] = defaultdict(int)
    for row in exported.tables["attempts"]:
        held[row["job_id"]] += row["ended_us"] - row["launched_us"]
    assert held == {
        str(story.job_id): story.held_us
        for story in exported.result.stories()
        if story.first_start_us is not None
    }


def test_attempts_start_and_end_by_their_events(exported: Exported) -> None:
    started = {
        (event["job_id"], event["attempt"]): event["at_us"]
        for event in exported.events
        if event["kind"] == "AttemptStarted"
    }
    for row in exported.tables["attempts"]:
        key = row["job_id"], row["attempt"]
        ended = exported.events[row["ended_seq"] - 1]
        assert (ended["kind"], ended["at_us"]) == (row["ended_by"], row["ended_us"])
        assert exported.events[row["launched_seq"] - 1]["at_us"] == row["launched_us"]
        if started:
            assert row["started_us"] == started.get(key)
        else:
            assert row["started_us"] == row["launched_us"]


def test_allocations_lie_side_by_side_on_each_gpu(exported: Exported) -> None:
    by_gpu: dict[tuple[str, int], list[tuple[int, int, str]]] = defaultdict(list)
    gpu_us: dict[str, int] = defaultdict(int)
    for row in exported.tables["allocations"]:
        for gpu in row["gpus"]:
            by_gpu[row["node"], gpu].append((row["from_us"], row["to_us"], row["sharing"]))
            gpu_us[row["job_id"]] += row["to_us"] - row["from_us"]
    for spans in by_gpu.values():
        alone = sorted(span for span in spans if span[2] == "exclusive")
        ends = [to_us for _, to_us, _ in alone]
        assert all(end <= span[0] for end, span in zip(ends, alone[1:], strict=False))
    if all(row["sharing"] == "exclusive" for row in exported.tables["allocations"]):
        attained = {str(story.job_id): story.service_gpu_us for story in exported.result.stories()}
        assert gpu_us == {name: us for name, us in attained.items() if us}


def test_decisions_are_the_events_that_decided(exported: Exported) -> None:
    by_seq = {row["seq"]: row for row in exported.tables["decisions"]}
    for seq, event in enumerate(exported.events, 1):
        if event["kind"] == "AllocationChanged":
            row, because = by_seq[seq], event["because"]
            shares = event["allocation"].get("shares", [])
            assert (row["job_id"], row["rule"]) == (event["job_id"], because["rule"])
            assert row["scores"] == because.get("scores", [])
            assert row["nodes"] == [share["node"] for share in shares]
            assert row["gpus"] == sum(share["gpu_mask"].bit_count() for share in shares)
            assert event["job_id"] in row["words"]
    kinds = [event["kind"] for event in exported.events]
    rounds = [row for row in by_seq.values() if row["kind"] == "RoundPlanned"]
    assert len(rounds) == kinds.count("RoundPlanned")
    assert [row["kind"] for row in by_seq.values()] == [kinds[seq - 1] for seq in by_seq]


def test_samples_are_the_events_of_samples(exported: Exported) -> None:
    recorded = [
        (seq, event)
        for seq, event in enumerate(exported.events, 1)
        if event["kind"] == "ProfileSampled"
    ]
    rows = exported.tables["samples"]
    assert [row["seq"] for row in rows] == [seq for seq, _ in recorded]
    for row, (_, event) in zip(rows, recorded, strict=True):
        said = {key: value for key, value in event.items() if key != "kind"}
        assert {key: row[key] for key in said} == said


def test_files_say_of_which_log_they_are(exported: Exported) -> None:
    from pyarrow import parquet

    said = parquet.read_schema(exported.folder / "jobs.parquet").metadata
    assert said[b"log_digest"].decode() == exported.result.document["log"]["digest"]
    assert int(said[b"events"]) == len(exported.events)


@pytest.mark.needs("polars")
def test_polars_reads_them(exported: Exported) -> None:
    import polars as pl

    jobs = pl.read_parquet(exported.folder / "jobs.parquet")
    finished = jobs.filter(pl.col("status") == "finished")
    mean_s = exported.result.document["jct_s"]["mean"]
    assert finished["jct_us"].mean() / 1e6 == pytest.approx(mean_s)
    attempts = pl.read_parquet(exported.folder / "attempts.parquet")
    assert attempts.join(jobs, on="job_id").height == attempts.height


@pytest.mark.needs("pandas")
def test_pandas_reads_them(exported: Exported) -> None:
    import pandas as pd

    jobs = pd.read_parquet(exported.folder / "jobs.parquet")
    finished = jobs[jobs["status"] == "finished"]
    mean_s = exported.result.document["jct_s"]["mean"]
    assert finished["jct_us"].mean() / 1e6 == pytest.approx(mean_s)


def test_a_log_is_cut_and_what_lasts_has_no_end(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = recounted("at once", tmp_path_factory)
    run.told("log", "export", run.url, "--parquet", str(tmp_path), "--to", "e100")
    attempts = _rows(tmp_path / "attempts.parquet")
    open_ones = {row["job_id"] for row in attempts if row["ended_us"] is None}
    running = {
        row["job_id"]
        for row in _rows(tmp_path / "jobs.parquet")
        if row["status"] == "unfinished" and row["held_us"]
    }
    assert open_ones >= running > set()
    assert max(row["seq"] for row in _rows(tmp_path / "decisions.parquet")) <= 100


def test_folder_that_cannot_be_made_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    url = recounted("at once", tmp_path_factory).url
    done = CliRunner().invoke(app, ["log", "export", url, "--parquet", "no/such/folder"])
    assert done.exit_code == 2
    assert "name a folder, or a new one in a folder that exists" in done.stderr
