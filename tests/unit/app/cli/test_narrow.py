"""Tables on narrow terminals, averages, comparisons that are cut off, and short notes."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.addresses import UnixAddress
from shunter.cli import answers as connecting, app, oracle_note, output, print_comparison
from shunter.errors import UnavailableError
from shunter.run import compare
from tests.unit.app.conftest import Generated


@pytest.mark.parametrize("width", [80, 120])
def test_comparison_fits_the_terminal(
    width: int,
    generated: Generated,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = compare(generated(), ["fifo_backfill", "las"])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(output, "WIDTH_WITHOUT_TERMINAL", width)  # what rich draws on here
    monkeypatch.setenv("COLUMNS", str(width))
    print_comparison(document)
    said = capsys.readouterr()
    rows = re.sub(r"\x1b\[[0-9;]*m", "", said.out).splitlines()
    assert max(map(len, rows)) <= width
    assert len(rows) == 4  # two heads and two policies: no cell is broken
    assert ("digest" in rows[0]) == (width == 120)
    assert ("not shown, as the terminal is narrow: digest" in said.err) == (width == 80)


def test_table_in_a_file_is_drawn_as_rich_draws_it(capsys: pytest.CaptureFixture[str]) -> None:
    titles = {"from": False, "for": True, "": False, "n": True}
    columns = [output.Column(title, is_number) for title, is_number in titles.items()]
    rows = [["T+1", "10m", "waits …", ""], ["", " 2d  ", " [b] runs – on é ", "7 "]]
    output.print_table(columns, rows)
    plain = capsys.readouterr().out
    output.print_table(columns, [*rows, ["時", "", "", ""]])  # only rich knows its width
    assert capsys.readouterr().out == f"{plain}時\n"


def test_list_of_commands_ends_no_sentence_in_the_middle() -> None:
    said = CliRunner().invoke(app, ["--help"]).stdout
    assert "..." not in said.partition("First steps:")[2]
    assert "--verify exits with 6 if decisions differ." in " ".join(said.split())


@pytest.mark.parametrize(("policy", "is_told"), [("srtf", True), ("las", False)])
def test_oracle_of_a_live_cluster_says_what_it_goes_by(
    policy: str, is_told: bool, generated: Generated
) -> None:
    said = oracle_note(generated(policy__name=policy))
    assert ("policy srtf is told run times in simulations only" in said) == is_told


ADDRESS = UnixAddress("/s")


def test_second_sentence_of_a_daemon_that_is_away_is_short(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def away() -> None:
        raise UnavailableError("no daemon answers on unix:/s; start one with `shunter serve`")

    with pytest.raises(UnavailableError) as caught:
        connecting.patiently(away, ADDRESS, 0.05)
    assert str(caught.value) == "no daemon answers after 0.05 s either: given up"
    assert capsys.readouterr().err.count("shunter serve") == 1
    with pytest.raises(UnavailableError, match="shunter serve"):
        connecting.patiently(away, ADDRESS, 0)


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
    words += ["--policies", "fifo,las", "-j", "1"] if command == "compare" else []
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


GENERATED = """\
[[cluster.nodes]]
name = "n[1-4]"
gpus = 8
[workload.generate]
kind = "philly-like"
jobs = {jobs}
"""


def test_comparison_that_is_cut_off_prints_what_has_finished(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(GENERATED.format(jobs=400), encoding="utf-8")
    words = ["compare", "run.toml", "--policies", "fifo,las", "--seeds", "500", "-j", "2", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "shunter", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "runs done: 1 of 1000\n"
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate()
    assert child.returncode == 130, err
    document = json.loads(out)
    assert 0 < len(document["runs"]) == 1000 - document["unfinished"] < 1000
    assert [each["policy"] for each in document["policies"]] == ["fifo"]
    assert err.endswith(f"cut off: {document['unfinished']} of 1000 runs had not finished\n")
    assert "Traceback" not in err
