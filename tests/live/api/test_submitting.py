"""`shunter submit` against a real daemon: restarts waited out, output followed, queues known."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shunter.client import Client
from tests.live.api.serving import PATIENCE_S, Served, environment

pytestmark = pytest.mark.live

STRANGER = "0123456789abcdef0123456789abcdef nobody"


def begun(served: Served, *words: str) -> "subprocess.Popen[str]":
    """Start a command and leave it running."""
    return subprocess.Popen(
        [sys.executable, "-m", "shunter", *words],
        env=environment(SHUNTER_URL=served.url),
        cwd=served.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_submission_waits_out_a_restart_and_is_made_once(
    served: Served, end: signal.Signals
) -> None:
    served.end(end)
    command = begun(served, "submit", "--", "true")
    time.sleep(1.5)
    assert command.poll() is None
    served.start()
    with command:
        out, err = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, out) == (0, "submitted j1\n")
    assert "no daemon answers" in err
    assert "tried again for 120 s" in err


def test_patience_has_a_bound(served: Served) -> None:
    served.end()
    begun_s = time.monotonic()
    found = served.run("submit", "--patience", "1s", "--", "true")
    assert (found.returncode, found.stdout) == (4, "")
    assert "no daemon answers" in found.stderr.splitlines()[-1]
    assert time.monotonic() - begun_s < 60


def test_place_where_no_daemon_was_is_not_waited_for(tmp_path: Path) -> None:
    words = ("submit", "--url", f"unix:{tmp_path}/s", "--", "true")
    found = subprocess.run(
        [sys.executable, "-m", "shunter", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 4
    assert "tried again" not in found.stderr


PRINTS = "import sys; print('out'); print('err', file=sys.stderr); sys.exit({code})"


def test_wait_prints_both_streams_and_how_it_ended(shared: Served) -> None:
    program = PRINTS.format(code=7)
    found = shared.run("submit", "--wait", "--", sys.executable, "-c", program)
    assert found.returncode == 7
    assert found.stdout.endswith("\nout\n")
    job_id = found.stdout.split()[1]
    assert found.stderr == f"err\n{job_id} failed: exit code 7; last line: err\n"


def test_wait_tells_the_last_line_of_what_ended_well(shared: Served) -> None:
    program = PRINTS.format(code=0)
    found = shared.run("submit", "--wait", "--", sys.executable, "-c", program)
    assert found.stderr.endswith("finished: exit code 0; last line: out\n")


def test_wait_keeps_output_for_machines_clean(shared: Served) -> None:
    found = shared.run("submit", "--wait", "--parsable", "--", "echo", "out")
    assert (found.returncode, "out" in found.stdout) == (0, False)


def test_output_goes_on_after_a_restart_with_nothing_twice(served: Served) -> None:
    program = (
        "import os, time\n"
        "for number in range(400):\n"
        "    print(number, flush=True)\n"
        "    time.sleep(0.01)\n"
        "while not os.path.exists('go'):\n"
        "    time.sleep(0.01)\n"
        "print('last')\n"
    )
    command = begun(served, "submit", "--wait", "--", sys.executable, "-c", program)
    assert command.stdout is not None
    assert command.stderr is not None
    with command:
        first = [command.stdout.readline() for _ in range(9)]
        served.end(signal.SIGTERM)
        served.start()
        (served.root / "go").touch()
        printed, err = "".join([*first, *command.stdout]), command.stderr.read()
    assert printed.splitlines() == ["submitted j1", *map(str, range(400)), "last"]
    assert command.returncode == 0
    assert "went away" in err or "no daemon answers" in err
    assert err.splitlines()[-1] == "j1 finished: exit code 0; last line: last"


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_unknown_queue_is_refused_and_the_known_ones_are_named(
    shared: Served, more: tuple[str, ...]
) -> None:
    found = shared.run("submit", "--queue", "fast", *more, "--", "true")
    assert found.returncode == 5
    assert found.stderr == "error: there is no queue 'fast': use default, closed\n"


def test_script_names_its_job(shared: Served) -> None:
    (shared.root / "train.py").write_text("print()\n", encoding="utf-8")
    made = shared.run("submit", "--parsable", "--", sys.executable, "train.py").stdout.strip()
    assert shared.handle(made).describe()["spec"]["name"] == "train.py"


def test_job_with_retries_is_tried_again_from_its_checkpoint(shared: Served) -> None:
    program = (
        "import os, sys\n"
        "path = os.environ['SHUNTER_CHECKPOINT_DIR'] + '/tries'\n"
        "tries = int(open(path).read()) if os.path.exists(path) else 0\n"
        "open(path, 'w').write(str(tries + 1))\n"
        "print('try', tries)\n"
        "sys.exit(0 if tries == 2 else 3)\n"
    )
    words = ("submit", "--wait", "--retries")
    enough = shared.run(*words, "2", "--", sys.executable, "-c", program)
    assert (enough.returncode, enough.stdout.splitlines()[1:]) == (0, ["try 0", "try 1", "try 2"])
    job_id = enough.stdout.split()[1]
    history = shared.run("why", "--history", job_id).stdout
    assert history.count("failed, to be tried again") == 2
    few = shared.run(*words, "1", "--", sys.executable, "-c", program)
    assert (few.returncode, few.stdout.splitlines()[1:]) == (3, ["try 0", "try 1"])
    assert shared.run("replay", "--verify", str(shared.root / "log.db")).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only a daemon of root serves several users")
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


MIXED = """
import sys, time
for number in range(6):
    stream = sys.stderr if number % 2 else sys.stdout
    print('line', number, file=stream, flush=True)
    time.sleep(0.15)
raise ValueError('the end')
"""


def test_logs_of_a_failed_job_end_with_its_error_and_keep_the_order(shared: Served) -> None:
    made = shared.run("submit", "--wait", "--parsable", "--", sys.executable, "-c", MIXED)
    job_id = made.stdout.strip()
    both = shared.run("logs", job_id).stdout.splitlines()
    assert both[:6] == [f"line {number}" for number in range(6)]
    assert both[-1] == "ValueError: the end"
    followed = shared.run("logs", "-f", job_id).stdout.splitlines()
    assert followed == both
    out = shared.run("logs", "--stdout", job_id).stdout.splitlines()
    err = shared.run("logs", "--stderr", job_id).stdout.splitlines()
    assert out == ["line 0", "line 2", "line 4"]
    assert sorted([*out, *err]) == sorted(both)
