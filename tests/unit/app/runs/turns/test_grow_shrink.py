"""Grow-shrink in simulations: into idle GPUs after a while, back at once; computed by hand."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import LoadedConfig
from shunter.errors import TraceError
from shunter.events import JobResized
from shunter.run import simulate
from tests.unit.app.traces import TURNS, config_of, ends_s, verified

HEAD = "job_id,submit_s,gpus,duration_s,gpus_min,gpus_max,suspend_mode"
COSTS = {"costs": {"suspend": "2s", "migrate": "10s"}}


def config(folder: Path, rows: str, **tables: Any) -> LoadedConfig:
    """Return a config of servers of four GPUs, on which elastic jobs grow after a minute."""
    params = {"grow_after": tables.pop("grow_after", "1m")}
    policy = {**TURNS, "params": {"gandiva": {k: v for k, v in params.items() if v}}}
    if "min_runtime" in tables:
        policy["guards"] = {"min_runtime": tables.pop("min_runtime")}
    types = tables.pop("types", ["v100"])
    count = tables.pop("servers", 1)
    nodes = [{"name": each, "count": count, "gpus": 4, "type": each} for each in types]
    return config_of(folder, HEAD, *rows.split(), policy=policy, cluster={"nodes": nodes}, **tables)


def sizes_in(loaded: LoadedConfig) -> list[tuple[float, str, int]]:
    """Return who got which size when, in seconds; the log must verify."""
    resized = [event for event in verified(loaded) if isinstance(event, JobResized)]
    return [(event.at_us / 1e6, str(event.job_id), event.gpus) for event in resized]


def why(loaded: LoadedConfig, job: str, at: str, *options: str) -> str:
    words = ["why", job, "--log", loaded.config.log.url, "--at", at, *options]
    command = CliRunner().invoke(app, words)
    assert command.exit_code == 0, command.output
    return command.output


def case(words: str, rows: str, sizes: list[Any], ends: dict[str, float], **tables: Any) -> Any:
    """Return a case: its words, its jobs, the sizes they get, and some of their ends, in s."""
    return pytest.param(rows, sizes, ends, tables, id=words)


TABLE = [
    case(
        "no key, no other size",
        "a,0,1,3600,,4 b,600,2,600",
        [],
        {"a": 3600, "b": 1200},
        grow_after=None,
    ),
    case(
        # a: 100 s on three GPUs, then one: 600 s more for the other 200; at the end it has grown.
        "it shrinks below what it was submitted with if another needs it",
        "a,0,3,300,1 b,100,3,900",
        [(100, "a", 1)],
        {"a": 700, "b": 1000},
    ),
    case(
        "one that comes while another has all gets what that can spare",
        "a,0,1,3600,,4 b,100,4,7200,1",
        [(60, "a", 4), (100, "a", 1), (100, "b", 3)],
        {},
    ),
    case(
        "it shrinks to its fewest for one that needs that to start at all",
        "a,0,4,3600,1 b,100,4,600,2",
        [(100, "a", 1), (100, "b", 3)],
        {},
    ),
    *(
        case(
            f"alone it grows once its guard of {guard} ends and GPUs were idle for {idle}",
            "a,0,1,28800,,4",
            [(at_s, "a", 4)],
            {"a": at_s + (28800 - at_s) / 4},
            min_runtime=guard,
            grow_after=idle,
        )
        for idle, guard, at_s in [
            ("30s", "1m", 60),
            ("59s", "1m", 60),
            ("1m", "1m", 60),
            ("2m", "1m", 120),
            ("1m", "2h", 7200),
        ]
    ),
    case(
        # b, submitted with all four as a is, takes turns with it while a is guarded.
        "both of a full server shrink, so that each has GPUs of its own",
        "a,0,4,600,2 b,10,4,600,2",
        [(70, "b", 2), (70, "a", 2)],
        {},
        min_runtime="1m",
    ),
    case("nobody grows while somebody waits", "a,0,1,1000,,4 b,1,4,100", [], {}),
    case(
        "nobody grows while somebody takes turns",
        "a,0,1,600,,2 b,1,4,600 c,2,4,600",
        [],
        {"a": 600},
        servers=2,
    ),
    case(
        # a and b have a server each; when c comes, one has to shrink, not two.
        "the smallest grows first, and as few as can be shrink",
        "a,0,2,5000,,4 b,0,1,5000,,3 c,500,2,100",
        [(60, "a", 4), (60, "b", 3), (500, "a", 2), (660, "a", 4)],
        {},
        servers=2,
    ),
    case(
        "of servers of two types that are alike the first one makes room",
        "a,0,1,5000,,4 b,0,2,5000,,4 c,500,2,100",
        [(60, "a", 4), (60, "b", 4), (500, "a", 1)],
        {},
        types=["v100", "k80"],
    ),
]


@pytest.mark.parametrize(("rows", "sizes", "ends", "tables"), TABLE)
def test_jobs_grow_and_shrink_as_the_row_says(
    tmp_path: Path, rows: str, sizes: list[Any], ends: dict[str, float], tables: dict[str, Any]
) -> None:
    loaded = config(tmp_path, rows, **tables)
    found = ends_s(loaded)
    assert {job: found[job] for job in ends} == pytest.approx(ends, abs=0.1)
    told = sizes_in(loaded)
    assert told[: len(sizes)] == sizes
    assert bool(told) is bool(sizes)


def test_job_grows_once_gpus_were_idle_and_shrinks_at_once_for_another(tmp_path: Path) -> None:
    """a: 60 s on one GPU, 540 on four; b comes and takes two; 60 on one, 600 on two, 30 on four.

    60 + 2,160 + 60 + 1,200 + 120 = 3,600 s of work.
    """
    loaded = config(tmp_path, "a,0,1,3600,,4 b,600,2,600")
    assert ends_s(loaded) == pytest.approx({"a": 1290, "b": 1200}, abs=0.1)
    assert sizes_in(loaded) == [(60, "a", 4), (600, "a", 1), (660, "a", 2), (1260, "a", 4)]
    now, before = why(loaded, "a", "1000s"), why(loaded, "a", "1000s", "--history")
    assert "its gang was given 2 GPUs at T+00:11:00" in now
    assert "grows from 1 GPU to 2 GPUs, for nobody waits" in now
    assert "grows from 1 GPU to 4 GPUs, for nobody waits and they were idle" in before
    assert "shrinks from 4 GPUs to 1 GPU, for b" in before


def test_job_starts_smaller_where_not_all_of_its_gang_fits(tmp_path: Path) -> None:
    """b has two of four GPUs up to 200 s and a minute more, then all: 130 s of 400 are done."""
    loaded = config(tmp_path, "a,0,2,200 b,0,4,400,2")
    assert ends_s(loaded)["b"] == pytest.approx(260 + 270, abs=0.1)
    assert sizes_in(loaded) == [(0, "b", 2), (260, "b", 4)]
    words = "starts with 2 GPUs instead of 4 GPUs, for there is no room for all"
    assert words in why(loaded, "b", "100s")


def test_job_that_comes_while_another_grows_has_its_own_gpus_once_that_has_started(
    tmp_path: Path,
) -> None:
    """a grows at 60, is off its GPUs up to 62 and starts up to 72; b comes at 65."""
    loaded = config(tmp_path, "a,0,1,28800,,4 b,65,1,600", simulation=COSTS)
    simulate(loaded)
    assert sizes_in(loaded)[:2] == [(60, "a", 4), (72, "a", 1)]
    assert "shrinks from 4 GPUs to 1 GPU, for b" in why(loaded, "a", "80s", "--history")


@pytest.mark.parametrize(("min_runtime", "at_s"), [("80s", 160), ("5m", 600)])
def test_guarded_job_shrinks_for_one_in_turns_as_its_guard_ends(
    tmp_path: Path, min_runtime: str, at_s: int
) -> None:
    """a grows as its first guard ends, b comes 10 s later, and takes turns up to the second."""
    grown_s = at_s // 2
    rows = f"a,0,1,28800,,4 b,{grown_s + 10},1,600"
    loaded = config(tmp_path, rows, min_runtime=min_runtime)
    found = ends_s(loaded)
    assert sizes_in(loaded)[:2] == [(grown_s, "a", 4), (at_s, "a", 1)]
    in_turns_s = at_s - grown_s - 10
    assert grown_s + 610 < found["b"] <= grown_s + 610 + in_turns_s


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("a,0,2,60,3,4", "gpus_min"),
        ("a,0,2,60,1,1", "gpus_max"),
        ("a,0,2,60,,4,never", "suspend_mode"),
        ("a,0,2,60,0,4", "gpus_min"),
    ],
)
def test_bounds_of_a_trace_that_cannot_be_are_told_with_their_column(
    tmp_path: Path, row: str, column: str
) -> None:
    with pytest.raises(TraceError, match=column):
        simulate(config(tmp_path, row))


@pytest.mark.parametrize(
    ("rows", "job", "params", "words"),
    [
        (
            # a cannot shrink; b asks for two GPUs, and starts with the first one that comes free.
            "a,0,4,600,4,4 b,60,2,600,1,2",
            "b",
            {"grow_after": "1m"},
            ("it needs 1 GPU, and 0 are free", "1 more GPU comes free to it"),
        ),
        (
            "a,0,2,600 b,0,2,600 c,60,2,600",
            "c",
            {"height_most": 1},
            (
                "have as many jobs as height_most allows",
                "a job ends or leaves a server on which it may take turns",
            ),
        ),
    ],
    ids=["the fewest GPUs it may start with", "the height of a server"],
)
def test_who_waits_is_told_for_what(
    tmp_path: Path, rows: str, job: str, params: dict[str, Any], words: tuple[str, ...]
) -> None:
    policy = {**TURNS, "params": {"gandiva": params}}
    loaded = config_of(tmp_path, HEAD, *rows.split(), policy=policy)
    simulate(loaded)
    said = why(loaded, job, "120s", "--long")
    assert [each for each in words if each not in said] == []
