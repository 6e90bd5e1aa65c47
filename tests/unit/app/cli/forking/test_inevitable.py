"""`shunter why --inevitable` as a command: what it prints, its document, its errors."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from shunter.cli import app
from tests.unit.app.forking.worlds import SLICING, simulated, tree

JOBS = """job_id,submit_s,gpus,duration_s,deadline_s,suspend_mode
long,0,4,7200,,never
first,60,2,600,,
due,120,4,600,8000,
later,180,4,3600,,
small,240,1,60,,
"""
ASSUMED = """\
assumed: jobs are submitted and people give orders when they did, however long others wait
assumed: servers are lost and come back when they did
assumed: run times are those of the trace
"""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the log of a run in which one wait is long among long ones."""
    generated = {"generate": {"jobs": 120, "load": 1.3, "gpus_max": 8}}
    policy = {"name": "fifo_easy", "trigger": "event"}
    folder = tmp_path_factory.mktemp("logs")
    return simulated(folder, tree("fifo_easy", policy=policy, workload=generated))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the log of four GPUs that one job holds for two hours while others wait."""
    return of_jobs(tmp_path_factory.mktemp("logs"), "fifo_backfill")


def of_jobs(folder: Path, name: str, jobs: str = JOBS, **sections: object) -> str:
    (folder / "jobs.csv").write_text(jobs)
    nodes = {"nodes": [{"name": "gpu1", "gpus": 4, "type": "v100"}]}
    policy = {"name": name, "trigger": "event"}
    workload = {"trace": str(folder / "jobs.csv")}
    config = {"cluster": nodes, "policy": policy, "workload": workload} | sections
    return simulated(folder, tree(name, **config))


def command(log: str, job: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["why", job, "--log", log, "--inevitable", *arguments])


def answer(log: str, job: str, *arguments: str) -> Any:
    found = command(log, job, *arguments, "--json")
    assert found.exit_code == 0, found.stderr
    return json.loads(found.stdout)["inevitable"]


def test_long_wait_is_told_with_all_that_was_tried(busy: str) -> None:
    assert (
        command(busy, "21").stdout
        == """\
21 finished at T+71:35:33.83, after 2d 13h: 2d 9h waiting, 3h 55m on servers   (at T+202:28:31.17)
  to avoid     its wait of 2d 9h, T+10:29:18.96 to T+67:40:25.83; nine in ten of 110 other jobs of \
1 GPU waited 41h 17m at most
  last found   round 105 at T+36:05:02.17 (e289) avoids it: it waits 25h 35m in all
  one before   round 104 at T+36:01:59.17 (e287) avoids it: it waits 25h 32m in all
  one after    round 106 at T+36:38:01.802 (e294) does not: even first it finds none, and it waits \
longer than 41h 16m
  spot checks  placed first at e320, e344, e366: do not avoid it either
  searched     13 of 131 decisions were tried, each in a simulation of fifo_easy from the moment \
before; at that one decision the job is first in order, and never after; between them it is taken \
that what avoids it comes before what does not, so a later one that was not tried may avoid it too
  as it was    simulated without a change it waits longer than 41h 16m, as recorded
"""
        + ASSUMED
    )


def test_spot_check_that_disagrees_is_named(busy: str) -> None:
    lines = command(busy, "57").stdout.splitlines()

    assert lines[5] == "  spot checks  placed first at e338, e380: do not avoid it either"
    assert lines[6] == (
        "  disagrees    round 169 at T+70:35:32.83 (e444) avoids it: it waits 40h 34m in all, so "
        "the one found is not the last"
    )
    document = answer(busy, "57")
    assert [each["seq"] for each in document["disagreeing"]] == [444]


def test_document_holds_what_was_found_and_all_that_was_tried(busy: str) -> None:
    document = answer(busy, "21")

    assert document["evidence"] == "simulated"
    assert document["is_bracketed"]
    tried = document["tried"]
    assert document["forks"] == len(tried) + 1 <= 25
    for name in ("found", "before", "next"):
        assert document[name] in tried
    assert document["found"]["avoids"]
    assert not document["next"]["avoids"]
    assert len(document["spot_checks"]) == 3
    assert [each["seq"] for each in tried] == sorted({each["seq"] for each in tried})


def test_missed_deadline_is_told(small: str) -> None:
    assert (
        command(small, "due").stdout
        == """\
due finished at T+02:20:00, after 2h 18m: 2h 08m waiting, 10m 00s on servers   (at T+03:20:00)
  to avoid     its missed deadline, T+02:13:20: it ended at T+02:20:00
  last found   round 4 at T+02:00:00 (e14) avoids it: it finishes at T+02:10:00
  one before   round 3 at T+00:04:00 (e12) does not: even first it finds none, and it has not \
ended by then
  one after    round 5 at T+02:01:00 (e18) does not: even first it finds none, and it has not \
ended by then
  spot checks  every later decision was tried, or there is none
  searched     5 of 5 decisions were tried, each in a simulation of fifo_backfill from the moment \
before; at that one decision the job is first in order, and never after
  as it was    simulated without a change it has not ended by then, as recorded
"""
        + ASSUMED
    )


def test_none_found_is_told_with_what_was_tried(small: str) -> None:
    told = command(small, "first", "--within", "10m").stdout.splitlines()[1:]
    tried = "does not: even first it finds none, and it waits longer than 10m 00s"
    assert told[:5] == [
        (
            "  to avoid     its wait of 1h 59m, T+00:01:00 to T+02:00:00; up to 10m 00s was said to"
            " be normal"
        ),
        "  none found   none of the 3 decisions that were tried avoids it",
        f"  tried        round 1 at T+00:01:00 (e7) {tried}",
        f"  tried        round 2 at T+00:02:00 (e9) {tried}",
        f"  tried        round 3 at T+00:04:00 (e12) {tried}",
    ]


def test_preemption_is_told(tmp_path: Path) -> None:
    log = of_jobs(tmp_path, "srtf", JOBS.replace("never", ""))
    told = command(log, "long", "--avoid", "preemption").stdout.splitlines()[1:]
    assert told[:3] == [
        "  to avoid     its preemption at T+00:01:00, until it had GPUs again at T+01:21:00",
        "  none found   the one decision does not avoid it",
        (
            "  tried        round 1 at T+00:01:00 (e7) does not: it has GPUs there, and yet it is "
            "preempted at T+00:02:00"
        ),
    ]
    assert "1 of 1 decision was tried" in told[3]
    assert (
        told[4]
        == "  as it was    simulated without a change it is preempted at T+00:01:00, as recorded"
    )


@pytest.mark.parametrize(
    ("job", "arguments", "code", "words"),
    [
        ("nobody", [], 3, "there is no job 'nobody'"),
        ("long", [], 2, "it never waited; no policy took its GPUs"),
        ("first", ["--within", "3h"], 2, "up to 3h 00m was said to be normal"),
        ("first", ["--avoid", "preemption"], 2, "no policy took its GPUs by then"),
        ("first", ["--avoid", "deadline"], 2, "it has no deadline"),
        ("due", ["--avoid", "deadline", "--at", "T+00:10:00"], 2, "it missed no deadline by then"),
        ("first", ["--avoid", "boredom"], 2, "expected wait, preemption, deadline"),
        ("first", ["--within", "soon"], 2, "expected a duration such as"),
        ("first", ["--history"], 2, "leave --counterfactuals and --history out"),
    ],
)
def test_what_cannot_be_answered_says_why(
    small: str, job: str, arguments: list[str], code: int, words: str
) -> None:
    found = command(small, job, *arguments)

    assert found.exit_code == code
    assert words in found.stderr
    assert not found.stdout


def test_policy_without_an_order_is_refused(tmp_path: Path) -> None:
    policy = {"name": "gandiva", "slicing": SLICING}
    found = command(of_jobs(tmp_path, "gandiva", policy=policy), "small", "--within", "0s")

    assert found.exit_code == 2


def test_options_of_its_own_need_it(small: str) -> None:
    runner = CliRunner()
    found = runner.invoke(app, ["why", "first", "--log", small, "--within", "1h"])
    live = runner.invoke(app, ["why", "first", "--inevitable"])

    assert "go with --inevitable" in found.stderr
    assert "--inevitable goes with --log" in live.stderr
