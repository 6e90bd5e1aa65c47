"""Dry runs and forecasts by a real daemon: what would be, of which nothing is, for whom it is."""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from shunter.client import Client
from shunter.errors import RateLimitedError, RefusedError, ShunterError
from tests.live.api.serving import Served, awaited

pytestmark = pytest.mark.live

SLEEPS = ["sleep", "600"]


def seq_of(served: Served) -> int:
    """Return the number of the last event of the daemon's log."""
    with served.client() as client:
        return int(client.daemon()["seq"])


def kinds_since(served: Served, seq: int) -> set[str]:
    """Return what has been logged since, but for what jobs measure while they run."""
    with served.client() as client:
        return {event["kind"] for event in client.events(after=seq)["events"]} - {"ProfileSampled"}


def forecasters(served: Served) -> list[int]:
    """Return the processes that make forecasts for a daemon."""
    assert served.process is not None
    found = list[int]()
    for task in sorted((Path("/proc") / str(served.process.pid) / "task").iterdir()):
        with suppress(FileNotFoundError, ProcessLookupError):  # threads and processes end
            for child in (task / "children").read_text("ascii").split():
                if b"forecast_child" in (Path("/proc") / child / "cmdline").read_bytes():
                    found.append(int(child))
    return found


def all_asked_at_once(
    served: Served, ask: Callable[[], None], outcomes: Sequence[str], count: int
) -> None:
    """Ask in so many threads: one is at work and one waits while all others are refused."""

    def at_work() -> int:
        found = forecasters(served)
        assert len(found) <= 1
        return found[0] if found else 0

    threads = [threading.Thread(target=ask) for _ in range(count)]
    threads[0].start()
    first = awaited(at_work)
    os.kill(first, signal.SIGSTOP)  # it works for as long as it takes the others to ask
    for thread in threads[1:]:
        thread.start()
    awaited(lambda: at_work() and len(outcomes) == count - 2)
    os.kill(first, signal.SIGCONT)
    while any(thread.is_alive() for thread in threads):
        at_work()


def is_there(pid: int) -> bool:
    """Say whether a process lives; one that has ended and is not waited for does not."""
    try:
        status = (Path("/proc") / str(pid) / "stat").read_text("ascii")
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_job_that_fits_would_start_and_does_not(served: Served) -> None:
    before = seq_of(served)
    with served.client() as client:
        awaited(lambda: client.submit_many(["true"], dry_run=True)["plan"])  # it has begun
        found = client.submit_many(["true"], gpus=2, dry_run=True)
        assert (found["is_dry_run"], found["ids"]) == (True, [])
        assert found["plan"]["starts"]
        assert found["plan"]["where"] == "n0[0-1]"
        assert found["plan"]["reason"] is None
        assert client.queue()["total"] == 0
    assert kinds_since(served, before) == set()


def test_job_that_does_not_fit_is_told_why(served: Served) -> None:
    with served.client() as client:
        held = client.submit(SLEEPS, gpus=3)
        awaited(lambda: held.state() == "running")
        before = seq_of(served)
        found = client.submit_many(["true"], gpus=2, dry_run=True)["plan"]
        assert (found["starts"], found["where"]) == (False, "")
        reason = found["reason"]
        assert (reason["name"], reason["needed"], reason["free"]) == ("no_capacity", 2, 1)
        assert client.submit_many(["true"], gpus=1, dry_run=True)["plan"]["starts"]
        # What was tried is forgotten: the policy plans on as if nobody had asked.
        job = client.submit(["true"], gpus=1)
        assert job.result() == 0
    assert "JobFinished" in kinds_since(served, before)


def test_on_a_drained_server_a_dry_run_says_what_is_then_said_of_the_job(served: Served) -> None:
    with served.client() as client:
        held = client.submit(SLEEPS, gpus=1)
        awaited(lambda: held.state() == "running")
        client.drain("n0")
        awaited(lambda: client.submit_many(["true"], dry_run=True)["plan"])
        imagined = client.submit_many(["true"], dry_run=True)
        words = served.run("submit", "--dry-run", "--", "true").stdout
        job = client.submit(["true"])
        awaited(lambda: client.why(job.id)["reason"]["name"] == "node_drained")
        reason = client.queue()["jobs"][-1]["reason"]

    assert imagined["plan"]["reason"] == reason
    assert (reason["detail"], reason["blockers"]) == ("n0 is drained", [])
    assert imagined["would"].endswith("it would not start with the next plan: node_drained")
    assert "why not: too few GPUs are in service; needs 1, 0 free; n0 is drained" in words
    assert held.id not in words


def test_dry_run_that_can_never_be_is_refused(served: Served) -> None:
    with served.client() as client, pytest.raises(RefusedError, match="can never run here"):
        client.submit_many(["true"], gpus=64, dry_run=True)


def test_forecast_tells_when_jobs_start_and_end_and_logs_nothing(served: Served) -> None:
    with served.client() as client:
        for count in (5, 3):  # those who wait once five have ended are foretold again
            ended = [client.submit(["sleep", "0.5"], gpus=4) for _ in range(count)]
            assert [job.result() for job in ended] == [0] * count
        first = client.submit(SLEEPS, gpus=4)
        second = client.submit(SLEEPS, gpus=4)
        awaited(lambda: first.state() == "running")
        before = seq_of(served)
        found = client.forecast(user="me")
        rows = {row["id"]: row for row in found["jobs"]}
        assert set(rows) == {first.id, second.id}
        assert rows[first.id]["start"] is None
        band = rows[second.id]["start"]
        assert found["now_us"] <= band["p50_us"] <= band["p90_us"]
        assert band["p90_us"] <= rows[second.id]["end"]["p90_us"]
        imagined = client.forecast_of(["true"], gpus=4)
        assert [row["state"] for row in imagined["jobs"]] == ["imagined"]
        # No past forecast need have come due in a log of seconds, but they were made again.
        assert imagined["accuracy"]["moments"] > 0
        said = served.run("queue", "--eta")
        assert said.returncode == 0
        assert "accuracy:" in said.stdout
        told = served.run("submit", "--dry-run", "-g", "4", "--", "true")
        assert told.returncode == 0
        assert "it would not start" in told.stdout
        assert "starts in" in told.stdout
        offline = served.run("queue", "--eta", "--json", "--log", str(served.root / "log.db"))
        assert {row["id"] for row in json.loads(offline.stdout)["jobs"]} == set(rows)
    assert kinds_since(served, before) == set()


def test_forecasts_of_others_are_for_admins(tmp_path: Path) -> None:
    """The tests' user owns the daemon, and so is an admin; another one has a token of his."""
    if os.geteuid() != 0:
        pytest.skip("only root's daemon serves somebody else")
    with Served(tmp_path) as served:
        tokens = served.root / "tokens"
        served.end()
        other = "fedcba9876543210fedcba9876543210"
        tokens.write_text(tokens.read_text("utf-8") + f"{other} nobody\n", "utf-8")
        served.start()
        with served.client() as client:
            client.submit(SLEEPS, gpus=1, name="secret-name")
            assert [row["name"] for row in client.forecast()["jobs"]] == ["secret-name"]
        with Client(served.tcp, token=other) as stranger:
            found = stranger.forecast()
            assert found["jobs"] == []
            assert "secret-name" not in json.dumps(found)
            with pytest.raises(RefusedError, match="for root and admins"):
                stranger.forecast(user="root")


def test_one_of_a_user_is_made_at_a_time_and_a_few_wait(served: Served) -> None:
    outcomes: list[str] = []

    def ask() -> None:
        with served.client() as client:
            try:
                client.forecast()
                outcomes.append("told")
            except RateLimitedError as error:
                outcomes.append(f"refused: {error}")

    all_asked_at_once(served, ask, outcomes, 6)
    assert [outcome[:7] for outcome in outcomes] == ["refused"] * 4 + ["told"] * 2
    with served.http() as http:
        assert http.get("/api/v1/forecast", timeout=60).status_code == 200


def test_forecast_ends_with_who_asked_and_keeps_nobody_waiting(served: Served) -> None:
    with served.client() as client:
        client.submit(SLEEPS, gpus=4)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(served.root / "s"))
        caller.sendall(b"GET /api/v1/forecast HTTP/1.1\r\nHost: shunter\r\n\r\n")
        pid = awaited(lambda: forecasters(served))[0]
        os.kill(pid, signal.SIGSTOP)  # it would not end by itself
    awaited(lambda: not is_there(pid))
    with served.client() as client:
        assert client.forecast()["jobs"]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_forecast_ends_with_the_daemon(served: Served, end: signal.Signals) -> None:
    with served.client() as client:
        client.submit(SLEEPS, gpus=4)

    def ask() -> None:
        with served.client() as client, suppress(ShunterError):  # or it was quick enough
            client.forecast()

    asking = threading.Thread(target=ask)
    asking.start()
    (pid,) = awaited(lambda: forecasters(served))
    assert is_there(pid)
    served.end(end)
    awaited(lambda: not is_there(pid))
    asking.join()
