"""What commands say to a daemon of another version, whose answers lack fields."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer

import pytest
from typer.testing import CliRunner

from shunter import __version__
from shunter.cli import app
from shunter.client import together, value_of
from shunter.errors import UnreachableError

ROW = {"id": "j1", "name": "a", "user": "ana", "gpus": 1, "state": "waiting", "reason": None}


class OldDaemon(BaseHTTPRequestHandler):
    """Answers as one that knows less."""

    def do_GET(self) -> None:
        found: dict[str, object] = {"version": "0.0.9"}
        if self.path.startswith("/api/v1/queue"):
            now = "2026-11-28T18:00:00+00:00"
            row = {**ROW, "since_at": now, "where": "", "cpus": 1, "memory_mb": 0, "turns": None}
            found = {"now": now, "jobs": [row], "total": 1, "states": {"waiting": 1}}
        self.answer(200, found)

    def do_POST(self) -> None:
        detail = f"POST is not what {self.path} takes: expected GET"
        self.answer(405, {"code": "not_allowed", "detail": detail})

    def answer(self, status: int, found: dict[str, object]) -> None:
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 its name
        """Print nothing."""


@pytest.fixture
def old_daemon(tmp_path: Path) -> Iterator[str]:
    with UnixStreamServer(f"{tmp_path}/s", OldDaemon) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"unix:{tmp_path}/s"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("words", [["queue"], ["show", "j1"], ["why", "j1"]])
def test_answer_that_lacks_a_field_is_one_line_with_both_versions(
    old_daemon: str, words: list[str]
) -> None:
    found = CliRunner().invoke(app, [*words, "--url", old_daemon])
    assert found.exit_code == 4
    assert "lacks the field '" in found.stderr
    assert "that is of Shunter 0.0.9" in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("verb", ["cancel", "suspend"])
def test_order_that_an_older_daemon_does_not_take_says_so_and_what_to_do(
    old_daemon: str, verb: str
) -> None:
    found = CliRunner().invoke(app, [verb, "j1", "j2", "--url", old_daemon])
    assert found.exit_code == 4
    (line,) = found.stderr.splitlines()
    assert f"the daemon is older than this client (Shunter {__version__})" in line
    assert f"POST /api/v1/jobs/{verb}, and nothing was done; `shunter down`" in line


def test_what_is_no_daemon_is_not_called_an_older_one() -> None:
    with pytest.raises(UnreachableError, match="is no daemon of Shunter's"):
        value_of(together("cancel", ["j1"]), 405, b"<html>")
