"""`shunter demo --folder`: what it leaves behind, and the commands that it names."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app

run = CliRunner().invoke


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo") / "made"
    done = run(app, ["demo", "--folder", str(folder)])
    assert done.exit_code == 0, done.output
    return folder, done.stdout


def test_demo_ends_with_a_report_and_what_to_do_with_it(demonstrated: tuple[Path, str]) -> None:
    folder, told = demonstrated
    last = told.splitlines()[-4:]

    assert last[0] == f"open in a browser  {folder / 'report.html'}"
    assert [line.split("  ")[0] for line in last[1:]] == ["ask why", "compare", "try what if"]
    assert "Shunter report: fifo, las, srtf" in (folder / "report.html").read_text()


def test_commands_that_demo_names_do_what_they_say(demonstrated: tuple[Path, str]) -> None:
    _, told = demonstrated
    wanted = ((0, "finished at"), (6, "first decision that differs"), (0, "las instead of fifo"))
    for line, (code, words) in zip(told.splitlines()[-3:], wanted, strict=True):
        program, *arguments = shlex.split(line[len("open in a browser  ") :])
        done = run(app, arguments)
        assert program == "shunter"
        assert done.exit_code == code, done.output
        assert words in done.stdout


def test_demo_names_its_logs_alike_and_asks_when_most_jobs_are_to_come(
    demonstrated: tuple[Path, str],
) -> None:
    folder, told = demonstrated
    for line in told.splitlines()[-3:]:
        named = [word for word in shlex.split(line) if word.endswith(".db")]
        assert {Path(name).parent for name in named} == {folder}
    _, *asked = shlex.split(told.splitlines()[-1][len("open in a browser  ") :])
    document = json.loads(run(app, [*asked, "--json"]).stdout)
    assert 900 < document["jobs"]["compared"] < 1800


def test_demo_can_be_shown_again(demonstrated: tuple[Path, str]) -> None:
    """Its logs take the places of those before, and are the same ones."""
    folder, _ = demonstrated
    before = json.loads(run(app, ["log", "stats", str(folder / "las.db"), "--json"]).stdout)
    assert run(app, ["demo", "--folder", str(folder), "--json"]).exit_code == 0
    after = json.loads(run(app, ["log", "stats", str(folder / "las.db"), "--json"]).stdout)
    assert after["digest"] == before["digest"]
