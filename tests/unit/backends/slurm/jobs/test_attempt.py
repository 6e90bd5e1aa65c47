"""Where an attempt stands, by its folder and Slurm's queue together."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter import clock
from shunter.backends.node import BEGUN, boot_id, note_leaving, put, take_claim, withdraw
from shunter.backends.slurm import JobAttempt, JobRecords, Patience, QueueView, attempt_job_name
from shunter.clock import clock_set
from tests.doubles.virtual_clock import VirtualClock
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
        self.view = QueueView()
        self.attempt = JobAttempt(str(folder), KEY, lambda: self.view, Patience(15.0, 900.0))

    def sees(self, *states: str, after_s: float = 0.0) -> str:
        """Have squeue tell of Slurm jobs of the attempt, some time later; return its state."""
        self.has_squeue_say(*states, after_s=after_s)
        return self.state

    def has_squeue_say(
        self, *states: str, after_s: float = 0.0, started_at_s: float | None = None
    ) -> None:
        """Have squeue tell of Slurm jobs of the attempt, some time later."""
        self.waits(after_s)
        start_s = None if started_at_s is None else int(started_at_s)
        about = {"time_limit_s": 5_400, "start_s": start_s}
        jobs = [
            queued(attempt_job_name("lab", *KEY), id=number, state=state, **about)
            for number, state in enumerate(states, 1)
        ]
        self.view = QueueView.of("lab", "me", clock.monotonic_s(), jobs)

    def waits(self, seconds: float) -> None:
        self._clock.advance(int(seconds * 1e9))

    @property
    def state(self) -> str:
        return self.attempt.look()[0].state

    @property
    def cause(self) -> str:
        return self.attempt.look()[0].cause

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
    assert case.cause == "it was cancelled in Slurm (scancel)"


@pytest.mark.parametrize("state", ["CANCELLED", "NODE_FAIL"])
def test_end_that_was_seen_too_early_to_count_is_looked_at_again(case: Case, state: str) -> None:
    """Nothing of the attempt changes any more: neither its records nor what squeue says of it."""
    case.begins()
    case.starts()
    assert case.sees(state, after_s=4) == "running"
    assert not case.attempt.may_have_news()
    case.has_squeue_say(state, after_s=12)
    assert case.attempt.may_have_news()
    case.sees(state)
    assert case.sees(state, after_s=901) == "lost"


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
    assert case.cause == "taken back while it waited in Slurm's queue"
    assert not take_claim(str(case.folder), BEGUN)


def test_what_ended_itself_for_a_node_that_failed_says_so(case: Case) -> None:
    case.begins()
    case.starts()
    case.sees("NODE_FAIL", after_s=30)
    put(f"{case.folder}/status", {**STATUS, "why": "fence"})
    assert case.state == "ended"
    assert case.cause == "Slurm ended it: NODE_FAIL"


def test_instants_of_another_node_are_told_on_our_clock(case: Case) -> None:
    """Goal: by the time of day at its claim, which stands there beside the node's own clock."""
    claim_s, now_s = 10.0, 25.0
    at_ns = 7_000_000_000_000
    case.waits(claim_s)
    assert take_claim(str(case.folder), BEGUN, wall_ns=clock.wall_ns(), at_ns=at_ns)
    claimed_ns = clock.monotonic_ns()
    case.waits(now_s - claim_s)
    put(f"{case.folder}/started", {**STARTED, "started_ns": at_ns + 10**9})
    saved, ended = at_ns + 2 * 10**9, at_ns + 3 * 10**9
    put(f"{case.folder}/status", {**SUSPENDED, "saved_ns": saved, "ended_ns": ended})
    note = {"n": 1, "what": "saved", "at_ns": saved}
    (case.folder / "journal").write_text(json.dumps(note) + "\n")
    known, _ = case.attempt.look()
    assert known["started"] is not None
    assert known["status"] is not None
    assert known["started"]["boot"] == boot_id()
    (told,) = case.attempt.journal(with_notes=True)["notes"]
    seconds = [
        (instant_ns - claimed_ns) // 10**9
        for instant_ns in (
            known["started"]["started_ns"],
            known["status"]["saved_ns"] or 0,
            known["status"]["ended_ns"],
            told["at_ns"],
        )
    ]
    assert seconds == [1, 2, 3, 2]


def test_instants_of_this_machine_are_told_as_they_are(case: Case) -> None:
    assert take_claim(str(case.folder), BEGUN, wall_ns=clock.wall_ns(), at_ns=1)
    put(f"{case.folder}/started", {**STARTED, "boot": boot_id(), "started_ns": 5})
    put(f"{case.folder}/status", STATUS)
    known, _ = case.attempt.look()
    assert known["started"] is not None
    assert known["status"] is not None
    assert (known["started"]["started_ns"], known["status"]["ended_ns"]) == (5, 2)


SUSPENDED = {**STATUS, "code": 75, "suspended": True, "why": "suspend", "saved": True}


def test_attempt_that_slurms_time_limit_ended_says_so_at_once(case: Case) -> None:
    case.begins()
    case.starts()
    case.has_squeue_say("RUNNING", after_s=30, started_at_s=time.time() + 100 - 5_400)
    note_leaving(str(case.folder), "SIGUSR2")
    put(f"{case.folder}/status", SUSPENDED)
    assert (case.state, case.cause) == ("ended", "Slurm's time limit of 1 h 30 min ended it")


def test_notice_is_not_told_as_the_limit_before_squeue_has_told_when_it_started(case: Case) -> None:
    """Somebody sent it in the first seconds; the last answer of squeue was before its start."""
    case.begins()
    case.starts()
    case.has_squeue_say("PENDING")
    note_leaving(str(case.folder), "SIGUSR2")
    put(f"{case.folder}/status", SUSPENDED)
    assert (case.state, case.cause) == ("running", "")
    case.has_squeue_say("FAILED", after_s=5, started_at_s=time.time())
    assert (case.state, case.cause) == ("ended", "Slurm sent it SIGUSR2, and has not said why")


@pytest.mark.parametrize(
    ("left_s", "state", "cause"),
    [
        (3_600.0, "CANCELLED", "it was cancelled in Slurm (scancel)"),
        (3_600.0, "PREEMPTED", "it was preempted in Slurm"),
        (3_600.0, "FAILED", "Slurm sent it SIGUSR2, and has not said why"),
        (170.0, "FAILED", "Slurm's time limit of 1 h 30 min ended it"),
    ],
)
def test_notice_long_before_the_limit_is_not_told_as_the_limit(
    case: Case, left_s: float, state: str, cause: str
) -> None:
    case.begins()
    case.starts()
    note_leaving(str(case.folder), "SIGUSR2")
    put(f"{case.folder}/status", SUSPENDED)
    case.has_squeue_say(state, started_at_s=time.time() + left_s - 5_400)
    assert (case.state, case.cause) == ("ended", cause)


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ("CANCELLED", "it was cancelled in Slurm (scancel)"),
        ("PREEMPTED", "it was preempted in Slurm"),
        ("TIMEOUT", "Slurm's time limit of 1 h 30 min ended it"),
        ("FAILED", "Slurm sent it SIGTERM, and has not said why"),
    ],
)
def test_cause_of_an_end_by_sigterm_is_awaited(case: Case, state: str, cause: str) -> None:
    case.begins()
    case.starts()
    case.sees("RUNNING", after_s=30)
    note_leaving(str(case.folder), "SIGTERM")
    put(f"{case.folder}/status", SUSPENDED)
    assert case.state == "running"
    assert case.sees("COMPLETING", after_s=5) == "running"
    assert case.attempt.may_have_news()
    assert case.sees(state, after_s=5) == "ended"
    assert case.cause == cause


def test_cause_that_slurm_never_tells_is_awaited_for_a_while(case: Case) -> None:
    case.begins()
    case.starts()
    note_leaving(str(case.folder), "SIGTERM")
    put(f"{case.folder}/status", SUSPENDED)
    assert case.state == "running"
    case.waits(16.0)
    assert (case.state, case.cause) == ("ended", "Slurm sent it SIGTERM, and has not said why")


def test_job_that_ends_as_it_would_have_anyway_has_no_cause_of_slurms(case: Case) -> None:
    case.begins()
    case.starts()
    note_leaving(str(case.folder), "SIGTERM")
    put(f"{case.folder}/status", STATUS)
    assert (case.state, case.cause) == ("ended", "")


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
    records = JobRecords(str(tmp_path), QueueView, Patience(15.0, 900.0))
    records.claim({"term": 1, "asked_ns": 0})
    folder = tmp_path / "jobs" / "j0" / "1"
    folder.mkdir(parents=True)
    assert take_claim(str(folder), BEGUN)
    assert not records.withdraw(KEY, "Slurm refuses the job")
    assert sorted(path.name for path in folder.iterdir()) == ["claim"]
    assert records.of(KEY).look()[0].state == "starting"


def test_fence_is_said_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    records = JobRecords(str(tmp_path), QueueView, Patience(15.0, 900.0))
    records.claim({"term": 1, "asked_ns": 0})
    folder = tmp_path / "jobs" / "j0" / "1"
    folder.mkdir(parents=True)
    assert take_claim(str(folder), BEGUN)
    assert not any([records.order(KEY, "suspend"), *(records.order(KEY, "fence"),) * 3])
    said = [json.loads(line) for line in (folder / "commands").read_text().splitlines()]
    assert [each["do"] for each in said] == ["suspend", "fence"]
    assert [each["state"] for each in records.fence("j0", 1)] == ["starting"]
