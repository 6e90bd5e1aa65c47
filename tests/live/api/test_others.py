"""Jobs of several users in one list, as an admin sees them."""

import os
from pathlib import Path

import pytest

from shunter.client import Client
from tests.live.api.serving import Served

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="only a daemon of root serves several users"),
]
STRANGER = "0123456789abcdef0123456789abcdef nobody"


def test_queue_says_that_it_shows_ones_own_jobs_only(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{STRANGER}\n", encoding="utf-8")
    tokens.chmod(0o600)
    with Served(tmp_path) as served:
        mine = served.run("submit", "--parsable", "--", "sleep", "60").stdout.strip()
        alone = served.run("queue")
        with Client(served.tcp, token=STRANGER.split(maxsplit=1)[0]) as stranger:
            theirs = stranger.submit(["sleep", "60"]).id
        own, every = served.run("queue"), served.run("queue", "-a")
    assert "yours only" not in alone.stderr
    assert (mine in own.stdout, theirs in own.stdout) == (True, False)
    assert "these are yours only: `shunter queue -a` lists 1 of others as well" in own.stderr
    assert theirs in every.stdout
    assert "yours only" not in every.stderr
