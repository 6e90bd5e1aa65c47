"""A command that tells of a log or of a daemon is asked of one of them."""

import pytest
from typer.testing import CliRunner

from shunter.cli import app


@pytest.mark.parametrize("words", [["why", "j1"], ["queue", "--eta"]])
def test_log_and_daemon_at_once_are_refused(words: list[str]) -> None:
    both = [*words, "--log", "run.db", "--url", "unix:/nowhere"]
    refused = CliRunner().invoke(app, both)
    assert refused.exit_code == 2
    assert "--log reads a log without a daemon and --url asks one" in refused.stderr
