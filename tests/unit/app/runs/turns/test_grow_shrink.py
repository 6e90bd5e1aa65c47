"""Grow-shrink in simulations: into idle GPUs after a while, back at once; computed by hand."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import LoadedConfig, make_config
from shunter.errors import TraceError
from shunter.run import simulate

HEAD = "job_id,submit_s,gpus,duration_s,gpus_min,gpus_max,suspend_mode\n"


def config(
    folder: Path, rows: str, servers: int = 1, grow_after: object = "1m", **tables: object
) -> LoadedConfig:
    """Return a config of servers of four GPUs, on which elastic jobs grow after a minute."""
    trace = folder / "jobs.csv"
    trace.write_text(HEAD + "".join(f"{row}{',' * (6 - row.count(','))}\n" for row in rows.split()))
    params = {} if grow_after is None else {"gandiva": {"grow_after": grow_after}}
    tree = {
        "cluster": {"nodes": [{"name": "n", "count": servers, "gpus": 4}]},
        "workload": {"trace": str(trace)},
        "policy": {"name": "gandiva", "trigger": "event", "slicing": {}, "params": params},
        "log": {"url": str(folder / "run.db")},
    }
    return make_config({**tree, **tables})


def guarded(min_runtime: str, grow_after: str = "1m") -> dict[str, object]:
    """Return a policy under which no attempt is preempted before it has run for so long."""
    guards, params = {"min_runtime": min_runtime}, {"gandiva": {"grow_after": grow_after}}
    policy = {"name": "gandiva", "trigger": "event", "slicing": {}}
    return {**policy, "guards": guards, "params": params}


def ends_s(loaded: LoadedConfig) -> dict[str, float]:
    return {str(one.job_id): (one.end_us or 0) / 1e6 for one in simulate(loaded).stories()}


def asked(*words: str) -> str:
    command = CliRunner().invoke(app, words)
    assert command.exit_code == 0, command.output
    return command.output


def sizes(folder: Path) -> list[tuple[float, str, int]]:
    """Return who got which size when, in seconds; the log must verify."""
    log = str(folder / "run.db")
    asked("replay", log, "--verify")
    events = [json.loads(line) for line in asked("log", "export", log).splitlines()]
    return [
        (event["at_us"] / 1e6, event["job_id"], event["gpus"])
        for event in events
        if event["kind"] == "JobResized"
    ]


def test_job_grows_once_gpus_were_idle_and_shrinks_at_once_for_another(tmp_path: Path) -> None:
    """a: 60 s on one GPU, 540 on four; b comes and takes two; 60 on one, 600 on two, 30 on four.

    60 + 2,160 + 60 + 1,200 + 120 = 3,600 s of work.
    """
    found = ends_s(config(tmp_path, "a,0,1,3600,,4 b,600,2,600"))
    assert found == {"a": pytest.approx(1290, abs=0.1), "b": pytest.approx(1200, abs=0.1)}
    assert sizes(tmp_path) == [(60, "a", 4), (600, "a", 1), (660, "a", 2), (1260, "a", 4)]
    words = ("why", "a", "--log", str(tmp_path / "run.db"), "--at", "1000s")
    assert "its gang was given 2 GPUs at T+00:11:00" in asked(*words)
    assert "grows from 1 GPU to 2 GPUs, for nobody waits" in asked(*words)
    why = asked(*words, "--history")
    assert "grows from 1 GPU to 4 GPUs, for nobody waits and they were idle" in why
    assert "shrinks from 4 GPUs to 1 GPU, for b" in why


def test_job_shrinks_below_what_it_was_submitted_with_if_another_needs_it(tmp_path: Path) -> None:
    """a: 100 s on three GPUs, then one: 600 s more for the other 200; at the end it has grown."""
    found = ends_s(config(tmp_path, "a,0,3,300,1 b,100,3,900"))
    assert found == {"a": pytest.approx(700, abs=0.1), "b": pytest.approx(1000, abs=0.1)}
    assert sizes(tmp_path) == [(100, "a", 1)]


def test_job_starts_smaller_where_not_all_of_its_gang_fits(tmp_path: Path) -> None:
    """b has two of four GPUs up to 200 s and a minute more, then all: 130 s of 400 are done."""
    found = ends_s(config(tmp_path, "a,0,2,200 b,0,4,400,2"))
    assert sizes(tmp_path) == [(0, "b", 2), (260, "b", 4)]
    assert found["b"] == pytest.approx(260 + 270, abs=0.1)
    why = asked("why", "b", "--log", str(tmp_path / "run.db"), "--at", "100s")
    assert "starts with 2 GPUs instead of 4 GPUs, for there is no room for all" in why


def test_job_that_comes_while_another_has_all_gets_what_that_can_spare(tmp_path: Path) -> None:
    """a has grown to four; b, of four or one at least, gets the three that a gives back."""
    ends_s(config(tmp_path, "a,0,1,3600,,4 b,100,4,7200,1"))
    assert sizes(tmp_path)[:3] == [(60, "a", 4), (100, "a", 1), (100, "b", 3)]


def test_jobs_shrink_to_their_fewest_for_one_that_needs_that_to_start_at_all(
    tmp_path: Path,
) -> None:
    """a has all four as submitted, b takes two at least: a gives up what it can, all but one."""
    ends_s(config(tmp_path, "a,0,4,3600,1 b,100,4,600,2"))
    assert sizes(tmp_path)[:2] == [(100, "a", 1), (100, "b", 3)]


GUARDED = [("30s", "1m", 60), ("59s", "1m", 60), ("1m", "1m", 60), ("2m", "1m", 120)]


@pytest.mark.parametrize(("grow_after", "min_runtime", "at_s"), [*GUARDED, ("1m", "2h", 7200)])
def test_job_alone_grows_once_its_guard_ends_and_gpus_were_idle_for_long_enough(
    tmp_path: Path, grow_after: str, min_runtime: str, at_s: int
) -> None:
    """a, 8 h of work, has one GPU until both are over, and then four."""
    policy = guarded(min_runtime, grow_after)
    found = ends_s(config(tmp_path, "a,0,1,28800,,4", policy=policy))
    assert sizes(tmp_path) == [(at_s, "a", 4)]
    assert found["a"] == pytest.approx(at_s + (28800 - at_s) / 4, abs=0.1)


def test_job_that_comes_while_another_grows_has_its_own_gpus_once_that_has_started(
    tmp_path: Path,
) -> None:
    """a grows at 60, is off its GPUs up to 62 and starts up to 72; b comes at 65."""
    costs = {"costs": {"suspend": "2s", "migrate": "10s"}}
    ends_s(config(tmp_path, "a,0,1,28800,,4 b,65,1,600", simulation=costs))
    assert sizes(tmp_path)[:2] == [(60, "a", 4), (72, "a", 1)]
    why = asked("why", "a", "--log", str(tmp_path / "run.db"), "--at", "80s", "--history")
    assert "shrinks from 4 GPUs to 1 GPU, for b" in why


@pytest.mark.parametrize(("min_runtime", "at_s"), [("80s", 160), ("5m", 600)])
def test_guarded_job_shrinks_for_one_in_turns_as_its_guard_ends(
    tmp_path: Path, min_runtime: str, at_s: int
) -> None:
    """a grows as its first guard ends, b comes 10 s later, and takes turns up to the second."""
    grown_s = at_s // 2
    rows = f"a,0,1,28800,,4 b,{grown_s + 10},1,600"
    found = ends_s(config(tmp_path, rows, policy=guarded(min_runtime)))
    assert sizes(tmp_path)[:2] == [(grown_s, "a", 4), (at_s, "a", 1)]
    in_turns_s = at_s - grown_s - 10
    assert grown_s + 610 < found["b"] <= grown_s + 610 + in_turns_s


def test_jobs_of_a_full_server_shrink_both_so_that_each_has_gpus_of_its_own(
    tmp_path: Path,
) -> None:
    """b, submitted with all four as a is, takes turns with it while a is guarded: then two each."""
    rows = "a,0,4,600,2 b,10,4,600,2"
    ends_s(config(tmp_path, rows, policy=guarded("1m")))
    assert sizes(tmp_path)[:2] == [(70, "b", 2), (70, "a", 2)]


def test_nobody_grows_while_somebody_waits_or_takes_turns(tmp_path: Path) -> None:
    waits = "a,0,1,1000,,4 b,1,4,100"
    ends_s(config(tmp_path, waits))
    assert sizes(tmp_path) == []
    turns = "a,0,1,600,,2 b,1,4,600 c,2,4,600"
    (tmp_path / "two").mkdir()
    found = ends_s(config(tmp_path / "two", turns, servers=2))
    assert found["a"] == 600
    assert sizes(tmp_path / "two") == []


def test_fewest_jobs_shrink_and_the_smallest_grows_first(tmp_path: Path) -> None:
    """Two servers of two jobs: b and d grow; on which c comes, one has to shrink, not two."""
    rows = "a,0,2,5000,,4 b,0,1,5000,,3 c,500,2,100"
    ends_s(config(tmp_path, rows, servers=2))
    told = sizes(tmp_path)
    assert told[:2] == [(60, "a", 4), (60, "b", 3)]
    assert (500, "a", 2) in told
    assert [one for one in told if one[0] == 500] == [(500, "a", 2)]


def test_sizes_stay_without_the_key(tmp_path: Path) -> None:
    found = ends_s(config(tmp_path, "a,0,1,3600,,4 b,600,2,600", grow_after=None))
    assert found == {"a": 3600, "b": 1200}
    assert sizes(tmp_path) == []


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
    loaded = config(tmp_path, row)
    loaded = make_config({**loaded.config.model_dump(mode="json", exclude_unset=True)})
    with pytest.raises(TraceError, match=column):
        simulate(loaded)


def test_who_may_start_smaller_waits_for_the_fewest_gpus(tmp_path: Path) -> None:
    """a cannot shrink; b asks for two GPUs, and starts with the first one that comes free."""
    simulate(config(tmp_path, "a,0,4,600,4,4 b,60,2,600,1,2"))
    log = str(tmp_path / "run.db")
    why = asked("why", "b", "--log", log, "--at", "120s", "--long")
    assert "it needs 1 GPU, and 0 are free" in why
    assert "1 more GPU comes free to it" in why


def test_who_waits_for_the_height_of_a_server_is_told_so(tmp_path: Path) -> None:
    params = {"gandiva": {"height_most": 1}}
    policy = {"name": "gandiva", "trigger": "event", "slicing": {}, "params": params}
    simulate(config(tmp_path, "a,0,2,600 b,0,2,600 c,60,2,600", policy=policy))
    why = asked("why", "c", "--log", str(tmp_path / "run.db"), "--at", "120s", "--long")
    assert "have as many jobs as height_most allows" in why
    assert "a job ends or leaves a server on which it may take turns" in why
