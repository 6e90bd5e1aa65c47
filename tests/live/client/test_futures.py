"""Jobs as `concurrent.futures.Future`s, and functions as jobs, against a real daemon."""

import concurrent.futures
import operator
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, CancelledError, Future
from pathlib import Path

import pytest

from shunter.client import AsyncClient, Client
from shunter.errors import JobFailedError, RefusedError, UnreachableError, UsageError
from tests.live.api.serving import Served, environment

pytestmark = pytest.mark.live

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A daemon whose server has CPUs for jobs without GPUs."""
    with Served(tmp_path_factory.mktemp("site"), cpus=16) as daemon:
        yield daemon


@pytest.fixture
def client(shared: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client whose home, and so its calls, are of this test alone."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with shared.client() as client:
        yield client


def calls(home: Path) -> list[Path]:
    return sorted((home / ".shunter" / "calls").iterdir())


def test_jobs_are_waited_for_and_taken_as_they_end(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    waits = f"until test -e {gate}; do sleep 0.1; done"
    slow = client.submit(["sh", "-c", f"{waits}; exit 3"], gpus=0)
    quick = client.submit(["true"])
    assert isinstance(slow, Future)

    ended, open_ = concurrent.futures.wait([slow, quick], PATIENCE_S, FIRST_COMPLETED)
    assert (ended, open_) == ({quick}, {slow})
    taken = []
    for job in concurrent.futures.as_completed([slow, quick], PATIENCE_S):
        taken.append(job)
        gate.touch()
    assert taken == [quick, slow]
    assert (quick.result(), quick.exception(), slow.done()) == (0, None, True)
    failed = slow.exception()
    assert isinstance(failed, JobFailedError)
    assert failed.exit_status == 3


def test_many_jobs_are_waited_for_by_one_thread(client: Client) -> None:
    jobs = client.submit_array(["true"], array=(0, 11, 1, None), gpus=0)
    ended, open_ = concurrent.futures.wait(jobs, PATIENCE_S, ALL_COMPLETED)
    assert (len(ended), open_) == (12, set())
    watching = [thread for thread in threading.enumerate() if thread.name == "shunter-watch"]
    assert len(watching) <= 1


def test_callback_is_called_although_nobody_holds_the_job(client: Client) -> None:
    called = threading.Event()
    client.submit(["true"]).add_done_callback(lambda job: called.set())
    assert called.wait(PATIENCE_S)


def test_cancelled_job_is_a_cancelled_future(client: Client) -> None:
    job = client.submit(["sleep", "600"])
    assert not job.done()
    assert job.cancel()
    ended, _ = concurrent.futures.wait([job], PATIENCE_S)
    assert ended == {job}
    assert (job.cancelled(), job.running(), job.cancel()) == (True, False, False)
    with pytest.raises(CancelledError, match=job.id):
        job.result()


def test_job_without_gpus_runs_on_a_cpu(client: Client, shared: Served) -> None:
    job = client.submit(["sh", "-c", 'echo "<$CUDA_VISIBLE_DEVICES>"'], gpus=0)
    assert job.result(PATIENCE_S) == 0
    assert b"".join(job.logs()) == b"<>\n"
    asked = job.describe()["spec"]
    assert (asked["gpus"], asked["cpus_milli"]) == (0, 1000)
    with shared.http() as http:
        refused = http.post("/api/v1/jobs", json={"command": ["true"], "gpus": 0, "cpus": 0})
    assert refused.status_code == 400
    assert "cpus > 0" in refused.text


def test_function_returns_what_it_returns(client: Client, tmp_path: Path) -> None:
    factor = 3

    def scaled(values: list[int], *, shift: int = 0) -> dict[str, object]:
        print("scaling", flush=True)
        return {"values": [factor * value + shift for value in values], "cwd": str(Path.cwd())}

    job = client.submit(scaled, [1, 2], keywords={"shift": 1}, gpus=0, name="scaling")
    assert job.result(PATIENCE_S) == {"values": [4, 7], "cwd": str(Path.cwd())}
    assert b"".join(job.logs()) == b"scaling\n"
    assert job.describe()["spec"]["name"] == "scaling"
    assert calls(tmp_path) == [], "what was read is removed"


def test_calls_are_for_their_owner_only(client: Client, tmp_path: Path) -> None:
    job = client.submit(operator.add, 1, 2, gpus=0)
    (folder,) = calls(tmp_path)
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o700}
    assert job.result(PATIENCE_S) == 3


def test_function_raises_what_it_raises(client: Client) -> None:
    job = client.submit(operator.truediv, 1, 0, gpus=0)
    concurrent.futures.wait([job], PATIENCE_S)
    error = job.exception()
    assert isinstance(error, ZeroDivisionError)
    assert job.id in error.__notes__[0]
    assert "Traceback" in error.__notes__[0]
    with pytest.raises(ZeroDivisionError):
        job.result()


def test_function_whose_result_cannot_be_sent_says_so(client: Client) -> None:
    def lock() -> object:
        return threading.Lock()

    with pytest.raises(JobFailedError, match="returned cannot be sent back: TypeError") as caught:
        client.submit(lock, gpus=0).result(PATIENCE_S)
    assert caught.value.exit_status == 1


def test_function_that_ends_its_process_fails_as_a_command_does(client: Client) -> None:
    with pytest.raises(JobFailedError) as caught:
        client.submit(sys.exit, 7, gpus=0).result(PATIENCE_S)
    assert caught.value.exit_status == 7


def test_executor_maps_a_function_over_jobs(client: Client, tmp_path: Path) -> None:
    with client.executor(gpus=0, folder=str(tmp_path / "shared"), name="powers") as executor:
        powers = list(executor.map(pow, [2, 3, 4], [5, 2, 1]))
        last = executor.submit(int, "ff", base=16)
    assert powers == [32, 9, 4]
    assert (last.done(), last.result()) == (True, 255)
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(int)


def test_example_prints_what_it_says(shared: Served, tmp_path: Path) -> None:
    script = Path(__file__).parents[3] / "examples" / "live" / "futures.py"
    ran = subprocess.run(
        [sys.executable, str(script)],
        env=environment(SHUNTER_URL=shared.url, HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    lines = ["0.5 1", "0.01 69", "0.0 ValueError: more than 10000 steps at a rate of 0.0"]
    assert (ran.stderr, ran.stdout.splitlines()) == ("", [*lines, "[7, 4, 2]"])


@pytest.mark.asyncio
async def test_function_is_awaited(
    shared: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with AsyncClient(shared.url) as client:
        job = await client.submit(pow, 2, 10, gpus=0)
        assert await job.result(PATIENCE_S) == 1024
        assert await job.result(PATIENCE_S) == 1024
        failed = await client.submit(int, "x", gpus=0)
        assert isinstance(await failed.exception(PATIENCE_S), ValueError)


def test_refused_function_leaves_nothing(client: Client, tmp_path: Path) -> None:
    with pytest.raises(RefusedError):
        client.submit(pow, 2, 3, gpus=99)
    assert calls(tmp_path) == []


def test_what_does_not_go_together_is_refused(client: Client) -> None:
    with pytest.raises(UsageError, match="expected a list of words"):
        client.submit("python train.py")
    with pytest.raises(UsageError, match="for functions, not commands"):
        client.submit(["true"], 1)  # type: ignore[call-overload]  # which is what it says
    with pytest.raises(UsageError, match="cannot be pickled"):
        client.submit(print, threading.Lock())
    with pytest.raises(UsageError, match="executor"):
        client.submit(print, array=(0, 1, 1, None))


def test_missing_cloudpickle_is_named_with_its_extra(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(UsageError, match=r"pip install 'shunter\[functions\]'"):
        client.submit(print, 1)


def test_future_of_a_closed_client_fails(shared: Served) -> None:
    with shared.client() as client:
        job = client.submit(["sleep", "600"])
    concurrent.futures.wait([job], PATIENCE_S)
    with pytest.raises(UsageError, match="closed"):
        job.result()
    with shared.client() as client:
        assert client.handle(job.id).cancel()


def test_future_of_a_daemon_that_stays_away_fails(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shunter.client.absence.LATELY_S", 1.0)
    with served.client() as client:
        job = client.submit(["sleep", "600"])
        served.end()
        concurrent.futures.wait([job], PATIENCE_S)
        assert isinstance(job.exception(), UnreachableError)


def test_future_waits_out_a_restart(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with served.client() as client:
        job = client.submit(["sh", "-c", f"until test -e {gate}; do sleep 0.1; done"])
        served.end()
        served.start()
        gate.touch()
        ended, _ = concurrent.futures.wait([job], PATIENCE_S)
        assert ended == {job}
        assert job.result() == 0
