"""`shunter what-if` as a command: what it prints, its document, its exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from shunter.cli import app
from tests.unit.app.forking.worlds import simulated, tree


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(simulated(tmp_path_factory.mktemp("logs"), tree("fifo")))


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["what-if", *map(str, arguments), "-j", "1"])


def test_document_compares_with_the_log_and_says_how_wrong_it_is(log: Path) -> None:
    found = command(log, "--from", "e100", "--policy", "srtf", "--seeds", "2", "--json")

    document = json.loads(found.stdout)
    jobs, accuracy = document["jobs"], document["accuracy"]
    assert document["evidence"] == "simulated"
    assert document["compared_with"] == "log"
    assert jobs["better"] + jobs["worse"] + jobs["same"] == jobs["compared"] > 10
    assert accuracy["exact"] == accuracy["jobs"] >= jobs["compared"]
    assert accuracy["mean_jct_error"] == 0
    assert document["bands"]["mean_jct_s"]["least"] <= document["what_if"]["mean_jct_s"]
    assert document["what_if"]["mean_jct_s"] < document["before"]["mean_jct_s"]
    assert document["losers"] == sorted(document["losers"], key=lambda each: -each["delta_s"])
    assert len(document["assumptions"]) >= 3


def test_winners_and_losers_are_told_by_job(log: Path) -> None:
    document = json.loads(command(log, "--from", "e100", "--policy", "srtf", "--json").stdout)

    for each in document["winners"]:
        assert each["what_if_jct_s"] - each["before_jct_s"] == pytest.approx(each["delta_s"])
        assert each["delta_s"] < 0


def test_without_a_change_the_policy_is_held_to_the_log(log: Path) -> None:
    found = command(log, "--from", "T+10:00:00")

    assert "0 better, 0 worse" in found.stdout
    assert "accuracy: the same policy, simulated, has a mean JCT 0.0 %" in found.stdout
    assert "assumed: run times are those of the trace" in found.stdout


def test_heading_names_what_was_changed(log: Path) -> None:
    same = command(log, "--from", "e100").stdout.splitlines()[0]
    settings = ["--set", "policy.round=300s", "--add-node", "name=new,gpus=8,type=gpu"]
    changed = command(log, "--from", "e100", *settings).stdout.splitlines()[0]

    assert same.endswith(": fifo")
    assert changed == f"{same}, with policy.round=300s, with servers name=new,gpus=8,type=gpu"


def test_text_marks_what_is_simulated_and_who_is_an_oracle(log: Path) -> None:
    text = command(log, "--from", "e100", "--policy", "srtf").stdout

    assert "what if (sim)" in text
    assert "srtf* instead of fifo" in text
    assert "* oracle: uses true durations" in text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--from", "e999999"], 2),
        (["--from", "e100", "--set", "policy.rounds=1"], 2),
        (["--from", "e100", "--policy", "nothing"], 3),
        ([], 2),
    ],
)
def test_what_cannot_be_asked_is_refused(log: Path, arguments: list[str], code: int) -> None:
    found = command(log, *arguments)

    assert found.exit_code == code
    assert found.stderr.startswith("error: ")
    assert not found.stdout
