"""Elastic jobs on a real daemon: submitted with bounds, resized by people, told to everybody."""

import signal
import time

import pytest

from shunter.client import Client
from shunter.errors import NotFoundError, RefusedError, UsageError
from tests.live.api.serving import Served, awaited

pytestmark = pytest.mark.live

# Counts up to a number; where sizes are named, a part of it on each in turn, and waits for the
# next; saves when it is asked to leave, and tells on how many GPUs it was.
COUNTS = """
import os, sys, time
path, most = os.environ["SHUNTER_CHECKPOINT_DIR"] + "/step", int(sys.argv[1])
done = int(open(path).read()) if os.path.exists(path) else 0
gpus = len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
sizes = "".join(sys.argv[2:]).split(",")
upto = most * (sizes.index(str(gpus)) + 1) // len(sizes) if len(sys.argv) > 2 else most
while done < most:
    if os.path.exists(os.environ["SHUNTER_SUSPEND"]):
        open(path, "w").write(str(done))
        sys.exit(75)
    time.sleep(0.01)
    if done == upto:
        continue
    done += 1
    print(gpus, done, flush=True)
"""


def test_job_grows_and_shrinks_as_its_owner_wants_and_loses_nothing(served: Served) -> None:
    """One GPU, then three, then two of four; each step is done once, and the log verifies."""
    with served.client() as client:
        job = client.submit(["python3", "-c", COUNTS, "400", "1,3,2"], gpus_min=1, gpus_max=3)
        spec = job.describe()["spec"]
        assert (spec["gpus_min"], spec["gpus_max"]) == (1, 3)
        for attempt, gpus in ((1, 3), (2, 2)):
            awaited(lambda number=attempt: _lines(served, job.id, number))
            client.resize(job.id, gpus)
            awaited(lambda number=attempt: len(job.describe()["attempts"]) > number)
        awaited(job.done)
        assert job.state() == "finished"
        lines = [line for attempt in (1, 2, 3) for line in _lines(served, job.id, attempt)]
        told = [tuple(map(int, line.split())) for line in lines]
        assert [step for _, step in told] == list(range(1, 401))
        sizes = list(dict.fromkeys(gpus for gpus, _ in told))
        assert sizes == [1, 3, 2]
        why = client.why(job.id)
        assert "its gang was given 2 GPUs at" in why["size"]["words"]
        assert why["size"]["words"].endswith("submitted with 1, and may have 1 to 3")
        ends = [row["ended_by"] for row in why["timeline"] if "ended_by" in row]
        assert ends[0].startswith("resized: ")
        assert ends[0].endswith("wants it to have 3 GPUs")
        assert why["totals"]["preemptions"] == 0
        assert client.history()["jobs"][0]["gpus"] == 1
    served.end()
    verified = served.run("replay", str(served.root / "log.db"), "--verify")
    assert verified.returncode == 0, verified.stderr


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.3])
def test_resize_survives_a_kill_of_the_daemon(served: Served, after_s: float) -> None:
    """The daemon is killed in the midst of it; what was answered is done, and no step twice."""
    with served.client() as client:
        job = client.submit(["python3", "-c", COUNTS, "200", "1,3"], gpus_max=3)
        awaited(lambda: _lines(served, job.id, 1))
        client.resize(job.id, 3)
        time.sleep(after_s)
        served.end(signal.SIGKILL)
    served.start()
    with served.client() as client:
        handle = client.handle(job.id)
        awaited(handle.done)
        assert handle.state() == "finished"
        assert len(handle.describe()["attempts"]) == 2
        told = [line.split() for number in (1, 2) for line in _lines(served, job.id, number)]
        assert [int(step) for _, step in told] == list(range(1, 201))
        assert [gpus for gpus, _ in told[-1:]] == ["3"]
    served.end()
    verified = served.run("replay", str(served.root / "log.db"), "--verify")
    assert verified.returncode == 0, verified.stderr


def orders(client: Client) -> list[int]:
    """Return where the log has what people ordered of jobs."""
    kinds = "JobSubmitted,JobRejected,JobResized"
    return [event["seq"] for event in client.events(kind=kinds)["events"]]


def _lines(served: Served, job_id: str, attempt: int) -> list[str]:
    return served.run("logs", job_id, "--attempt", str(attempt)).stdout.splitlines()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"gpus": 2, "gpus_min": 3, "gpus_max": 2}, "gpus_min = 3: expected gpus_max = 2 at most"),
        ({"gpus": 2, "gpus_min": 3}, "gpus_min = 3: expected gpus = 2 at most"),
        ({"gpus": 2, "gpus_max": 1}, "gpus_max = 1: expected gpus = 2 at least"),
        ({"gpus": 0, "cpus": 1, "gpus_max": 2}, "gpus_max = 2: expected a job with GPUs"),
        ({"gpus_min": 0}, "gpus_min"),
        ({"gpus_max": 2, "suspend_mode": "stop"}, "suspend_mode = stop: expected cooperative or"),
        ({"gpus_max": 2, "suspend_mode": "never"}, "suspend_mode = never: expected cooperative"),
    ],
    ids=str,
)
def test_bounds_that_contradict_each_other_are_refused_by_key_and_leave_nothing(
    shared: Served, said: dict[str, object], words: str
) -> None:
    with shared.http() as http, shared.client() as client:
        before = orders(client)
        answer = http.post("/api/v1/jobs", json={"command": ["true"], **said})
        assert (answer.status_code, words in answer.text) == (400, True), answer.text
        assert orders(client) == before


def test_resize_that_cannot_be_is_refused_and_leaves_nothing(shared: Served) -> None:
    with shared.client() as client:
        fixed = client.submit(["sleep", "60"])
        elastic = client.submit(["sleep", "60"], gpus_max=9)
        awaited(elastic.running)
        before = orders(client)
        with pytest.raises(RefusedError, match="is not elastic"):
            client.resize(fixed.id, 1)
        with pytest.raises(UsageError, match=r"gpus = 10: job .* takes 1 to 9"):
            client.resize(elastic.id, 10)
        with pytest.raises(RefusedError, match=r"with 9 GPUs .* can never run here"):
            client.resize(elastic.id, 9)
        with pytest.raises(NotFoundError):
            client.resize("j999", 2)
        assert orders(client) == before
        client.resize(elastic.id, 1)
        assert not client.events(kind="JobResized", job=elastic.id)["events"]
        for job in (fixed, elastic):
            client.cancel(job.id)
            awaited(job.done)
        with pytest.raises(RefusedError, match="has ended already"):
            client.resize(elastic.id, 2)


def test_command_line_submits_and_resizes(shared: Served) -> None:
    made = shared.run(
        *("submit", "--parsable", "-g", "2", "--gpus-min", "1", "--gpus-max", "4"),
        *("--", "sleep", "60"),
    )
    assert made.returncode == 0, made.stderr
    job_id = made.stdout.strip()
    awaited(shared.handle(job_id).running)
    assert "2 GPUs (at least 1 and at most 4)" in shared.run("show", job_id).stdout
    resized = shared.run("resize", job_id, "3")
    assert (resized.returncode, resized.stdout) == (0, f"{job_id} is to have 3 GPUs\n")
    shown = shared.run("show", job_id).stdout
    assert "size now" in shown
    assert "3 GPUs" in shown
    too_many = shared.run("resize", job_id, "5")
    assert too_many.returncode == 2
    assert "takes 1 to 4" in too_many.stderr
    shared.run("cancel", job_id)
    wrong = shared.run("submit", "-g", "2", "--gpus-min", "3", "--", "true")
    assert wrong.returncode == 2
    assert "gpus_min = 3" in wrong.stderr
