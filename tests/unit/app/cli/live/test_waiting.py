"""`shunter submit --wait` while the daemon is away: what is said of that, and how often."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from shunter.cli import logs as waiting
from shunter.errors import UnavailableError

MADE = {"id": "j1", "ids": ["j1"]}
AWAY, QUIET, OVER = "away", "quiet", "over"


class Daemon:
    """A daemon that is away, or dies while it is asked, or tells the end, look by look."""

    def __init__(self, *looks: str) -> None:
        self._looks = iter(looks)

    @contextmanager
    def connect(self, _url: str | None) -> Iterator["_Client"]:
        """Return a client for the next look."""
        yield _Client(next(self._looks, OVER))


class _Client:
    def __init__(self, look: str) -> None:
        self._look = look

    def handle(self, _job_id: str) -> "_Client":
        return self

    def wait(self, _timeout: float | None = None) -> dict[str, Any]:
        return {"id": "j1", "state": "finished", "exit_code": 0, "cause": ""}

    def job(self, _job_id: str) -> dict[str, Any]:
        if self._look == AWAY:
            raise UnavailableError("no daemon answers")
        return {"is_over": True}

    def logs(self, _job_id: str, **_asked: Any) -> Iterator[bytes]:
        if self._look != OVER:  # it answered, and died before the job printed anything
            raise UnavailableError("no daemon answers")
        yield b"done\n"


@pytest.mark.parametrize(
    ("looks", "times"), [([], 0), ([AWAY] * 9, 1), ([AWAY, AWAY, QUIET, AWAY, AWAY], 2)]
)
def test_each_absence_of_the_daemon_is_said_once(
    looks: list[str],
    times: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(waiting, "PAUSE_S", 0.0)
    # Both streams look for themselves; that of errors says nothing of the daemon.
    stdout = Daemon(*looks)
    monkeypatch.setattr(waiting, "connect", stdout.connect)
    monkeypatch.setattr(waiting, "Thread", only_of_output(Thread))

    client: Any = _Client(OVER)
    code = waiting.wait_for(client, MADE, None, quiet=False)

    assert code == 0
    assert capsys.readouterr().err.count("the output goes on when a daemon answers") == times


def only_of_output(thread: type[Any]) -> Any:
    """Return what makes threads, of which that of the errors does nothing."""

    def made(*, target: Any, args: tuple[str, Any], daemon: bool) -> Any:
        does = target if args[0] == "stdout" else lambda *_: None
        return thread(target=does, args=args, daemon=daemon)

    return made
