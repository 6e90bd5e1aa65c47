"""Averages say how many jobs they leave out."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app

CONFIG = """\
schema = 1
[[cluster.nodes]]
name = "n"
gpus = 2
[workload]
trace = "jobs.csv"
format = "canonical-csv"
[policy]
name = "fifo"
[log]
url = "none:"
"""
ALL = ["a,0,10,1,finished", "b,0,10,2,finished"]
SOME = [*ALL, "c,1,10,4,finished", "d,2,10,8,finished"]


@pytest.mark.parametrize("command", ["simulate", "compare"])
@pytest.mark.parametrize(("jobs", "told"), [(ALL, False), (SOME, True)])
def test_averages_say_how_many_jobs_they_leave_out(
    tmp_path: Path, command: str, jobs: list[str], told: bool
) -> None:
    rows = ["job_id,submit_s,duration_s,gpus,status", *jobs]
    (tmp_path / "jobs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "a.toml").write_text(CONFIG, encoding="utf-8")
    words = [command, str(tmp_path / "a.toml")]
    words += ["--policies", "fifo,las"] if command == "compare" else []
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, ran.output
    said = [line for line in ran.stdout.splitlines() if "times are of finished jobs" in line]
    if not told:
        assert said == []
        return
    counted = json.loads(CliRunner().invoke(app, ["simulate", words[1], "--json"]).stdout)["jobs"]
    assert (counted["submitted"], counted["finished"]) == (4, 2)
    assert len(said) == 1
    assert said[0].startswith("times are of finished jobs; left out: 2 ")
