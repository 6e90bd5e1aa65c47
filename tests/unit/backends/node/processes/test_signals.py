"""Which processes a signal can be sent to without ending them."""

import signal
import subprocess
import sys

import pytest

from shunter.backends.node import catches

WAITS = "; print(flush=True); input()"


@pytest.mark.parametrize(
    ("prepares", "is_caught"),
    [
        ("signal.signal(signal.SIGUSR1, lambda *_: None)", True),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])", True),  # as srun does
        ("signal.signal(signal.SIGUSR2, lambda *_: None)", False),
        ("pass", False),
    ],
)
def test_process_catches_a_signal_that_it_handles_or_blocks(
    prepares: str, *, is_caught: bool
) -> None:
    program = f"import signal; {prepares}{WAITS}"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert catches(process.pid, signal.SIGUSR1) is is_caught
        process.kill()


def test_process_that_is_gone_catches_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    assert not catches(process.pid, signal.SIGUSR1)
