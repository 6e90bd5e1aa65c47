"""`shunter reproduce tiresias`, for real, with few jobs."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app

pytestmark = pytest.mark.fidelity

run = CliRunner().invoke
FEW = ["reproduce", "tiresias", "--jobs", "30", "-j", "1"]


def test_people_get_tables_with_the_claim_and_sentences() -> None:
    done = run(app, FEW)

    assert done.exit_code == 0
    assert "tiresias-like at load 0.7 (offered" in done.stdout
    assert "SRTF (srtf*)" in done.stdout
    assert "up to 5.5" in done.stdout
    assert "no --trace was named: generated jobs of kind philly-like stand in" in done.stdout
    assert "60 s are 15s to suspend and 45s to resume" in done.stdout
    assert "- Up to 5.5× lower average JCT than the YARN baseline" in done.stdout


def test_json_is_one_document_and_plots_are_written(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(
        "job_id,submit_s,gpus,duration_s\n"
        + "".join(f"{number},{number * 20},{number % 4 + 1},600\n" for number in range(40))
    )
    options = ["--trace", str(trace), "--plots", str(tmp_path / "plots"), "--json"]

    done = run(app, [*FEW, *options])

    document = json.loads(done.stdout)
    assert done.exit_code == 0
    assert [table["trace"]["name"] for table in document["tables"][3:]] == ["jobs.csv"] * 3
    assert [table["trace"]["jobs"] for table in document["tables"]] == [30] * 6
    assert document["claim"]["ratio"] == 5.5
    assert len(sorted((tmp_path / "plots").glob("*.svg"))) == 12
    assert "drawn: " in done.stderr


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--trace", "no-such.csv"], 2, "cannot read trace no-such.csv"),
        (["--plots", __file__], 2, "expected a folder, and this is a file"),
        (["--jobs", "0"], 2, "--jobs"),
        (["--seed", "-1"], 2, "--seed"),
    ],
)
def test_what_cannot_be_is_refused_before_any_run(options: list[str], code: int, said: str) -> None:
    done = run(app, ["reproduce", "tiresias", *options])

    assert done.exit_code == code
    assert said in done.stderr
    assert done.stdout == ""


def test_missing_matplotlib_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shunter_papers.plots.find_spec", lambda name: None)

    done = run(app, [*FEW, "--plots", str(tmp_path)])

    assert done.exit_code == 2
    assert "'shunter-papers[plots]'" in done.stderr


def test_help_lists_the_papers() -> None:
    assert "tiresias" in run(app, ["reproduce", "--help"]).stdout


def test_gavel_says_its_form_its_rates_and_what_never_fills_the_cluster() -> None:
    done = run(app, ["reproduce", "gavel", "--jobs", "3", "--rate", "2", "--gang-rate", "1"])

    assert done.exit_code == 0
    assert "jobs of one GPU that keep arriving, 12 V100, 12 P100, 12 K80" in done.stdout
    assert "with gangs, 12 V100, 12 P100, 12 K80" in done.stdout
    assert "- The quick form, not the paper's size" in done.stdout
    assert "- Never full at 2 jobs an hour" in done.stdout
    assert [line.split()[-2] for line in done.stdout.splitlines() if "public code  " in line] == [
        "never"
    ] * 4
    assert sum("*" in line for line in done.stdout.splitlines()) == 3  # FIFO, AlloX, legend


def test_gavel_refuses_another_solver_before_any_run() -> None:
    done = run(app, ["reproduce", "gavel", "--solver", "glpk"])

    assert done.exit_code == 2
    assert "'glpk' is not one of" in done.stderr
    assert done.stdout == ""


def test_synergy_has_its_tables_and_says_what_stands_in(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("0,alexnet,8,3349,1\n1,gnmt,9,26435,1\n")
    few = ["--jobs", "3", "--rate", "7.5", "--gang-rate", "4", "-j", "1"]
    done = run(app, ["reproduce", "synergy", "--dynamic", str(trace), *few])

    assert done.exit_code == 0
    assert "the table of the slides, 4 servers of 8 GPUs and 24 CPUs" in done.stdout
    assert "like static" in done.stdout
    assert "jobs of one GPU, by the mix of models, 32 GPUs" in done.stdout
    assert "- No --static was named: made-up jobs" in done.stdout
    assert "- No --dynamic" not in done.stdout
    assert "- Up to 3.4× lower average JCT (OSDI 2022): not reached here" in done.stdout
