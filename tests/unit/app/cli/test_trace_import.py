"""`shunter trace import` and `convert`: a site's own history becomes a trace for `simulate`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from tests.unit.backends.slurm.recorded import recorded

CONFIG = """\
[[cluster.nodes]]
name = "n[1-2]"
gpus = 4
cpus = 16
memory_gb = 64
[workload]
trace = "history.csv"
"""


@pytest.fixture
def sacct(tmp_path: Path) -> Path:
    path = tmp_path / "sacct.txt"
    path.write_text(recorded("22.05", "sacct.txt"), encoding="utf-8")
    return path


def test_imported_history_is_simulated_job_by_job(sacct: Path, tmp_path: Path) -> None:
    out = tmp_path / "history.csv"
    runner = CliRunner()
    imported = runner.invoke(app, ["trace", "import", "--slurm-sacct", str(sacct), "-o", str(out)])
    assert imported.exit_code == 0, imported.output
    assert "19 rows: it is a step of a job" in imported.stderr
    (tmp_path / "run.toml").write_text(CONFIG, encoding="utf-8")
    ran = runner.invoke(app, ["simulate", str(tmp_path / "run.toml"), "--json"])
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert told["jobs"]["submitted"] == len(out.read_text().splitlines()) - 1


def test_names_are_hashed_under_the_key_of_a_file(sacct: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    words = ["trace", "import", "--slurm-sacct", str(sacct), "--anonymise-key-file", str(key)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0
    assert "root" not in result.stdout
    assert "gang" not in result.stdout
    assert ",main," in result.stdout
    accounts = CliRunner().invoke(app, [*words, "--queue", "account"])
    assert "queue-" in accounts.stdout


def test_key_that_is_not_there_says_how_to_make_one(sacct: Path, tmp_path: Path) -> None:
    words = ["--slurm-sacct", str(sacct), "--anonymise-key-file", str(tmp_path / "none")]
    result = CliRunner().invoke(app, ["trace", "import", *words])
    assert result.exit_code == 2
    assert "head -c 32 /dev/urandom" in result.stderr


def test_columns_that_a_site_names_otherwise_are_converted(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.csv"
    theirs.write_text("Submit,NGPU,duration_s,Note\n5,2,10,x\n", encoding="utf-8")
    words = ["trace", "convert", str(theirs), "--columns", "Submit=submit_s,NGPU=gpus"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    head, row = (line.split(",") for line in result.stdout.splitlines())
    found = dict(zip(head, row, strict=True))
    assert (found["submit_s"], found["gpus"], found["duration_s"]) == ("5", "2", "10")
    assert "the columns 'Note' say" in result.stderr
    plain = CliRunner().invoke(app, words[:3])
    assert (plain.exit_code, "or rename the columns" in plain.stderr) == (2, True)
    wrong = CliRunner().invoke(app, [*words[:4], "Submit=when"])
    assert (wrong.exit_code, "--columns Submit=when: expected THEIRS=OURS" in wrong.stderr) == (
        2,
        True,
    )
