"""Where an attempt stands, by its folder and Slurm's queue together."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter import clock
from shunter.backends.node.batch.claims import BEGUN, take_claim, withdraw
from shunter.backends.node.records import put
from shunter.backends.slurm.jobs.attempt import JobAttempt, Patience
from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.records import JobRecords
from shunter.backends.slurm.jobs.script import job_name
from shunter.clock.port import clock_set
from shunter.clock.virtual import VirtualClock
from tests.unit.backends.slurm.jobs.queue import queued

KEY = ("j0", 1)
STARTED = {
    "boot": "b",
    "started_ns": 1,
    "pid": 1,
    "placement": [["n1", 1]],
    "ranks": [],
    "port": 1,
    "gpus": ["0"],
}
STATUS = {"code": 0, "suspended": False, "why": "", "saved": False, "ended_ns": 2}


class Case:
    """An attempt, a queue that can be set, and a clock that can be moved."""

    def __init__(self, folder: Path, virtual: VirtualClock) -> None:
        self.folder = folder
        self._clock = virtual
        self.view: QueueView | None = None
        self.attempt = JobAttempt(str(folder), KEY, lambda: self.view, Patience(15.0, 900.0))

    def sees(self, *states: str, after_s: float = 0.0) -> str:
        """Have squeue tell of Slurm jobs of the attempt, some time later; return its state."""
        self.waits(after_s)
        jobs = [
            queued(job_name("lab", *KEY), id=number, state=state)
            for number, state in enumerate(states, 1)
        ]
        self.view = QueueView.of("lab", "me", clock.monotonic_s(), jobs)
        return self.state

    def waits(self, seconds: float) -> None:
        self._clock.advance(int(seconds * 1e9))

    @property
    def state(self) -> str:
        return self.attempt.look()[0]["state"]

    @property
    def cause(self) -> str:
        return self.attempt.look()[0]["cause"]

    def begins(self) -> None:
        assert take_claim(str(self.folder), BEGUN)

    def starts(self) -> None:
        put(f"{self.folder}/started", STARTED)


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    """An attempt of which nothing is known yet."""
    virtual = VirtualClock()
    with clock_set(virtual):
        yield Case(tmp_path, virtual)


def test_life_without_trouble(case: Case) -> None:
    assert case.state == "starting"  # the queue was never seen
    assert case.sees("PENDING", after_s=20) == "starting"
    case.begins()
    assert case.sees("RUNNING", after_s=5) == "starting"
    case.starts()
    assert case.state == "running"
    assert case.sees("COMPLETING", after_s=100) == "running"
    put(f"{case.folder}/status", STATUS)
    assert case.state == "ended"
    assert case.sees(after_s=9_000) == "ended"


def test_answer_that_was_asked_for_too_early_says_nothing(case: Case) -> None:
    case.sees(after_s=14)
    assert not case.attempt.is_missed()
    case.sees(after_s=2)
    assert case.attempt.is_missed()
    assert case.state == "starting"
    case.attempt.asked_s = clock.monotonic_s()  # and is submitted again
    assert not case.attempt.is_missed()


def test_queue_that_does_not_answer_ends_nothing(case: Case) -> None:
    case.begins()
    case.starts()
    case.waits(100_000)
    assert case.state == "running"
    assert not case.attempt.is_missed()
    assert not case.attempt.may_live_on()


def test_end_in_slurm_is_believed_once_records_had_their_time(case: Case) -> None:
    case.begins()
    case.starts()
    assert case.sees("CANCELLED", after_s=30) == "running"
    assert not case.attempt.may_live_on()
    assert case.sees("CANCELLED", after_s=14) == "running"
    assert case.sees("CANCELLED", after_s=2) == "lost"
    assert case.cause == "Slurm ended it: CANCELLED"


def test_claim_without_a_start_is_absent_once_slurm_ended_it(case: Case) -> None:
    case.begins()
    case.sees("FAILED", after_s=30)
    assert case.sees("FAILED", after_s=16) == "absent"


@pytest.mark.parametrize("states", [("NODE_FAIL",), (), ("CANCELLED", "NODE_FAIL")])
def test_processes_that_may_live_on_are_waited_for(case: Case, states: tuple[str, ...]) -> None:
    case.begins()
    case.starts()
    assert case.sees(*states, after_s=30) == "running"
    assert case.attempt.may_live_on()
    assert case.sees(*states, after_s=899) == "running"
    assert case.sees(*states, after_s=2) == "lost"


def test_job_that_is_back_was_never_over(case: Case) -> None:
    case.begins()
    case.starts()
    case.sees(after_s=30)
    case.sees(after_s=890)
    assert case.sees("RUNNING", after_s=5) == "running"
    assert case.sees(after_s=20) == "running"
    assert case.sees(after_s=100) == "running"


def test_what_was_withdrawn_is_absent_whatever_slurm_has(case: Case) -> None:
    assert withdraw(str(case.folder))
    assert case.sees("RUNNING", "PENDING", after_s=30) == "absent"
    assert not take_claim(str(case.folder), BEGUN)


def test_refusal_of_a_node_is_why_it_is_absent(case: Case) -> None:
    case.begins()
    put(f"{case.folder}/refusal", {"cause": "user ana is not known on this host"})
    assert case.state == "absent"
    assert case.cause == "user ana is not known on this host"


def test_what_runs_has_begun_though_its_folder_is_gone(case: Case) -> None:
    assert not case.attempt.has_begun()
    case.sees("PENDING", after_s=20)
    assert not case.attempt.has_begun()
    case.sees("RUNNING", after_s=5)
    assert case.attempt.has_begun()


def test_withdrawal_that_comes_too_late_leaves_no_refusal(tmp_path: Path) -> None:
    """Else what has begun just then would be taken for refused, and be started again."""
    records = JobRecords(str(tmp_path), lambda: None, Patience(15.0, 900.0))
    records.claim({"term": 1, "asked_ns": 0})
    folder = tmp_path / "jobs" / "j0" / "1"
    folder.mkdir(parents=True)
    assert take_claim(str(folder), BEGUN)
    assert not records.withdraw(KEY, "Slurm refuses the job")
    assert sorted(path.name for path in folder.iterdir()) == ["claim"]
    assert records.of(KEY).look()[0]["state"] == "starting"


def test_fence_is_said_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    records = JobRecords(str(tmp_path), lambda: None, Patience(15.0, 900.0))
    records.claim({"term": 1, "asked_ns": 0})
    folder = tmp_path / "jobs" / "j0" / "1"
    folder.mkdir(parents=True)
    assert take_claim(str(folder), BEGUN)
    assert not any([records.order(KEY, "suspend"), *(records.order(KEY, "fence"),) * 3])
    said = [json.loads(line) for line in (folder / "commands").read_text().splitlines()]
    assert [each["do"] for each in said] == ["suspend", "fence"]
    assert [each["state"] for each in records.fence("j0", 1)] == ["starting"]
