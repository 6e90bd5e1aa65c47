"""`shunter demo --folder`: what it leaves behind, and the commands that it names."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import make_config
from shunter.run import simulate

run = CliRunner().invoke


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """In a folder that has logs of before, whose places those of the demo take."""
    folder = tmp_path_factory.mktemp("demo")
    few = {"cluster": {"nodes": [{"name": "n", "gpus": 1}]}, "workload": {"generate": {"jobs": 2}}}
    simulate(make_config({**few, "log": {"url": str(folder / "las.db")}}))
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
    """They name its logs alike, and ask what if when most jobs are to come."""
    folder, told = demonstrated
    last = ""
    wanted = ((0, "finished at"), (6, "first decision that differs"), (0, "las instead of fifo"))
    for line, (code, words) in zip(told.splitlines()[-3:], wanted, strict=True):
        program, *arguments = shlex.split(line[len("open in a browser  ") :])
        done = run(app, arguments)
        assert program == "shunter"
        assert {Path(word).parent for word in arguments if word.endswith(".db")} == {folder}
        assert done.exit_code == code, done.output
        assert words in done.stdout
        last = done.stdout
    (compared,) = re.findall(r"jobs +([\d,]+): ", last)
    assert 900 < int(compared.replace(",", "")) < 1800


def test_logs_of_a_demo_take_the_places_of_those_before(
    demonstrated: tuple[Path, str],
) -> None:
    folder, _ = demonstrated
    told = json.loads(run(app, ["log", "stats", str(folder / "las.db"), "--json"]).stdout)
    assert told["kinds"]["JobSubmitted"] > 1000
