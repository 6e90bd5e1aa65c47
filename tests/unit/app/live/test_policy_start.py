"""What the process of a live policy imports: a daemon waits for it at each start."""

import subprocess
import sys

NOT_NEEDED = (
    "asyncio",
    "sqlalchemy",
    "sqlite3",
    "shunter.daemon",
    "shunter.run",
    "shunter.backends.live",
    "shunter.backends.slurm",
    "shunter.events.log",
)


def test_policys_process_imports_nothing_of_the_daemon() -> None:
    code = (
        "import sys\n"
        "import shunter.policy_process.child\n"
        f"print([name for name in {NOT_NEEDED!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_process_that_was_forked_ahead_is_the_first_policys_only() -> None:
    """Goal: a start imports what policies need once; the next policy has its own process.

    Method: a program forks ahead, makes two of them, kills both, and ends both once more.
    """
    code = (
        "import shunter.policy_process.child as ahead\n"
        "ahead.fork_ahead()\n"
        "from shunter.daemon.policy import PolicyProcess\n"
        "both = [PolicyProcess(), PolicyProcess()]\n"
        "print([type(each._process).__name__ for each in both])\n"
        "for each in both:\n"
        "    each._process.kill()\n"
        "print([each._process.wait() for each in both])\n"
        "for each in both:\n"
        "    each.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == ["['ForkedChild', 'Popen']", "[-9, -9]"]


def test_process_that_was_forked_ahead_ends_with_a_daemon_that_did_not_take_it() -> None:
    code = (
        "import os\n"
        "import shunter.policy_process.child as ahead\n"
        "ahead.fork_ahead()\n"
        "print(ahead.taken()[1]._pid, flush=True)\n"
        "os._exit(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    # The pipes of both are at their ends: the copy, which has them too, is gone.
    assert (done.returncode, done.stdout.strip().isdigit(), done.stderr) == (3, True, "")
