"""Multi-jobs in turns: the turns of members follow their priorities, recounted from the log."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import make_config
from shunter.run import simulate

HEAD = "job_id,submit_s,gpus,duration_s,priority,group\n"


def turns_s(folder: Path, rows: str, until_s: int) -> dict[str, float]:
    """Run a trace on one GPU under `gandiva`; return the seconds that each job was on turn."""
    trace = folder / "jobs.csv"
    trace.write_text(HEAD + rows)
    simulate(
        make_config(
            {
                "cluster": {"nodes": [{"name": "n", "gpus": 1}]},
                "workload": {"trace": str(trace)},
                "policy": {"name": "gandiva", "trigger": "event", "slicing": {}},
                "log": {"url": str(folder / "run.db")},
            }
        )
    )
    url = str(folder / "run.db")
    verified = CliRunner().invoke(app, ["replay", url, "--verify"])
    assert verified.exit_code == 0, verified.output
    had_us: dict[str, int] = {}
    begun_us: dict[str, int] = {}
    exported = CliRunner().invoke(app, ["log", "export", url]).output.splitlines()
    for event in map(json.loads, exported):
        at_us = min(event["at_us"], until_s * 1_000_000)
        if event["kind"] == "TurnStarted":
            begun_us[event["job_id"]] = at_us
        elif event["kind"] in ("TurnEnded", "AttemptEnded"):
            job = event["job_id"]
            had_us[job] = had_us.get(job, 0) + at_us - begun_us.pop(job, at_us)
    return {job: us / 1e6 for job, us in had_us.items()}


def test_one_priority_more_gets_twice_the_turns(tmp_path: Path) -> None:
    """In the first 3 h of one GPU: 2 h for priority 1, 1 h for priority 0, within a quantum."""
    found = turns_s(tmp_path, "a,0,1,36000,1,s\nb,0,1,36000,0,s\n", 3 * 3600)
    assert found == {"a": pytest.approx(7200, abs=60), "b": pytest.approx(3600, abs=60)}


def test_job_of_the_background_gets_few_turns_and_not_none(tmp_path: Path) -> None:
    """Priority -3 has an eighth of the weight: 1/9 of 9 h; -500 counts as -10: one turn of 1,024.

    Its first turn comes at once, since it had least; it had that by 60 s.
    """
    rows = "a,0,1,86400,0,s\nb,0,1,86400,-3,s\n"
    found = turns_s(tmp_path, rows, 9 * 3600)
    assert found == {"a": pytest.approx(8 * 3600, abs=60), "b": pytest.approx(3600, abs=60)}
    rows = "a,0,1,36000,0,s\nb,0,1,600,-500,s\n"
    (tmp_path / "few").mkdir()
    found = turns_s(tmp_path / "few", rows, 36000)
    assert found["b"] == 60
