"""`shunter logs -f` while the daemon ends and starts again: each byte comes once, in order."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.live.api.serving import PATIENCE_S, Served, awaited, environment

pytestmark = pytest.mark.live

# Dots without an end of line as well: what has been shown of a line must not come again.
PRINTS = (
    "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo out $i; echo err $i >&2; printf .; sleep 0.02; "
    "done; echo; echo last"
)


def following(
    served: Served, printed: Path, *words: str, program: tuple[str, ...] = ("-m", "shunter")
) -> "subprocess.Popen[bytes]":
    """Start `shunter logs -f`; its output goes to a file, which can be looked at meanwhile."""
    with printed.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, *program, "logs", "-f", *words],
            env=environment(SHUNTER_URL=served.url),
            stdout=file,
            stderr=subprocess.PIPE,
        )


def ended(command: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Return the exit code of a command, and what it wrote on stderr."""
    with command:
        _, err = command.communicate(timeout=PATIENCE_S)
    return command.returncode, err.decode()


@pytest.mark.parametrize("stream", [(), ("--stdout",), ("--stderr",)])
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_followed_output_goes_on_after_a_restart_and_no_byte_comes_twice(
    served: Served, tmp_path: Path, end: signal.Signals, stream: tuple[str, ...]
) -> None:
    """Method: the streams of the file are compared with what the job's own files have."""
    printed = tmp_path / "printed"
    with served.client() as client:
        job_id = client.submit(["sh", "-c", PRINTS]).id
    command = following(served, printed, *stream, job_id)
    for line in (20, 120):
        awaited(lambda line=line: f" {line}\n".encode() in printed.read_bytes())
        served.end(end)
        time.sleep(1.0)  # the job prints on meanwhile
        served.start()
    code, err = ended(command)
    assert code == 0, err
    assert "goes on if one answers in 120 s" in err
    with served.client() as client:
        out = b"".join(client.logs(job_id))
        error = b"".join(client.logs(job_id, stream="stderr"))
    found = printed.read_bytes()
    if stream:
        assert found == (out if stream == ("--stdout",) else error)
        return
    # Between the streams an end of line may be put in, and said that their order is not known.
    lines = [line for line in found.split(b"\n") if not line.startswith(b"shunter: which")]
    errors = [line for line in lines if line.startswith(b"err ")]
    others = [line for line in lines if not line.startswith(b"err ")]
    assert b"\n".join(errors) + b"\n" == error
    assert b"".join(others) == out.replace(b"\n", b"")


def test_attempts_that_begin_after_a_restart_are_followed_as_well(
    served: Served, tmp_path: Path
) -> None:
    printed = tmp_path / "printed"
    program = "echo begin $SHUNTER_ATTEMPT; sleep 3; echo end $SHUNTER_ATTEMPT; exit 1"
    with served.client() as client:
        job_id = client.submit(["sh", "-c", program], retries=1).id
    command = following(served, printed, job_id)
    awaited(lambda: b"begin 1\n" in printed.read_bytes())
    served.end(signal.SIGKILL)
    served.start()
    assert ended(command)[0] == 0
    assert printed.read_bytes() == b"begin 1\nend 1\nbegin 2\nend 2\n"


IMPATIENT = """
import runpy
from shunter.client import absence as watching
watching.LATELY_S = 1.0
runpy.run_module("shunter", run_name="__main__")
"""


def test_follower_gives_up_on_a_daemon_that_stays_away(served: Served, tmp_path: Path) -> None:
    """Method: a daemon that is away is waited for for a second instead of 120."""
    printed = tmp_path / "printed"
    with served.client() as client:
        job_id = client.submit(["sh", "-c", "echo first; sleep 60"]).id
    command = following(served, printed, job_id, program=("-c", IMPATIENT))
    awaited(lambda: printed.read_bytes() == b"first\n")
    served.end(signal.SIGKILL)
    code, err = ended(command)
    assert code == 4
    assert "output goes on if one answers in 1 s" in err
    assert "did not go on within 1 s: given up" in err
    assert f"shunter logs -f {job_id}" in err.splitlines()[-1]
