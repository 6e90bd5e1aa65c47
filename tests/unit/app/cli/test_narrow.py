"""Tables on narrow terminals, the list of commands, and short notes."""

import re
import sys

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
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connecting, "PAUSE_S", 0.01)

    def away() -> None:
        raise UnavailableError("no daemon answers on unix:/s; start one with `shunter serve`")

    with pytest.raises(UnavailableError) as caught:
        connecting.patiently(away, ADDRESS, 0.05)
    assert str(caught.value) == "no daemon answers after 0.05 s either: given up"
    assert capsys.readouterr().err.count("shunter serve") == 1
    with pytest.raises(UnavailableError, match="shunter serve"):
        connecting.patiently(away, ADDRESS, 0)
