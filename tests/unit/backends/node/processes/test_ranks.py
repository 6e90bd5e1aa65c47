"""A rank ends when it is asked to; one whose program cannot be run says why, and what to do."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node import ranks
from tests.unit.backends.node.orders import order_of, rank_of


def spawned(folder: Path, *argv: str, **fields: Any) -> int:
    """Start a rank, and return the exit code with which it has ended."""
    (folder / "ranks.lock").touch()
    lock = os.open(folder / "ranks.lock", os.O_PATH)
    env = {"PATH": "/usr/bin:/bin"}
    order = order_of(ranks=[rank_of(*argv, **{"env": env, "directory": str(folder), **fields})])
    try:
        pid = ranks.spawn(str(folder), order, 0, lock, ranks.Gate(1, is_open=True))
    finally:
        os.close(lock)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    ("program", "text", "mode", "told"),
    [
        ("pyhton", None, 0, "there is no program 'pyhton' in PATH"),
        ("./job.sh", None, 0, "there is no file ./job.sh in "),
        ("./job.sh", "#!/bin/sh\n", 0o644, "chmod +x ./job.sh, or shunter submit ./job.sh"),
        ("./job.sh", "#!/no/such/sh\n", 0o755, "not the interpreter that its first line names"),
        ("./job.sh", "true\n", 0o755, "./job.sh is no program: it has no first line such as"),
    ],
)
def test_rank_says_why_its_program_cannot_be_run(
    program: str, text: str | None, mode: int, told: str, tmp_path: Path
) -> None:
    if text is not None:
        script = tmp_path / program
        script.write_text(text)
        script.chmod(mode)
    assert spawned(tmp_path, program, "x.py") == ranks.EXIT_NOT_RUN
    found = (tmp_path / "stderr.0").read_text()
    assert found.startswith(f"shunter: cannot run ['{program}', 'x.py']: ")
    assert told in found


def test_rank_whose_folder_is_gone_names_the_folder(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert spawned(tmp_path, directory=gone) == ranks.EXIT_NOT_RUN
    told = f"its directory {gone} cannot be entered: No such file or directory\n"
    assert (tmp_path / "stderr.0").read_text().endswith(told)


def test_rank_that_is_asked_to_end_as_it_begins_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: it never acts as its supervisor would. Method: SIGTERM right after the fork."""

    def fork(fork: Callable[[], int] = os.fork) -> int:
        pid = fork()
        if not pid:
            os.kill(os.getpid(), signal.SIGTERM)
        return pid

    monkeypatch.setattr(os, "fork", fork)
    before = signal.signal(signal.SIGTERM, lambda *_: (tmp_path / "handled").touch())
    try:
        assert spawned(tmp_path) == -signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not (tmp_path / "handled").exists()
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
