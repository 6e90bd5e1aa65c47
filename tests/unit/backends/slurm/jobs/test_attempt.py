"""Where an attempt stands, by its folder and Slurm's queue together.

A life is a text of steps, each with what is then so behind an arrow:

    begins; starts -> running            what the script on the node does
    20s PENDING,RUNNING -> starting      20 s later squeue tells of these jobs; `none`: of none
    0s FAILED left 170s -> ended as …    of one that has so much of its time limit left
    16s -> not missed                    time passes, and squeue is silent
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter import clock
from shunter.backends.node import BEGUN, boot_id, note_leaving, put, take_claim, withdraw
from shunter.backends.slurm import JobAttempt, JobRecords, Patience, QueueView, attempt_job_name
from shunter.clock import clock_set
from tests.doubles.virtual_clock import VirtualClock
from tests.unit.backends.node.orders import started_of, status_of
from tests.unit.backends.slurm.jobs.queue import queued

KEY = ("j0", 1)
STARTED = started_of(placement=[["n1", 1]], gpus=["0"])
STATUS = status_of()
SUSPENDED = {**STATUS, "code": 75, "suspended": True, "why": "suspend", "saved": True}
SEEN = re.compile(r"(\d+)s(?: ([A-Z_,]+|none)(?: left (\d+)s)?)?")


class Case:
    """An attempt, a queue that can be set, and a clock that can be moved."""

    def __init__(self, folder: Path, virtual: VirtualClock) -> None:
        self.folder = folder
        self._clock = virtual
        self.view = QueueView()
        self.attempt = JobAttempt(str(folder), KEY, lambda: self.view, Patience(15.0, 900.0))

    def lives(self, life: str) -> None:
        """Take steps; hold each against what is so behind its arrow."""
        for step in re.split(r"; |\n", life):
            what, _, expected = step.strip().partition("->")
            if what.strip():
                self._take(what.strip())
            words, _, cause = expected.strip().partition(" as ")
            for word in filter(None, words.split(", ")):
                wanted = word.removeprefix("not ")
                found = self.facts.get(wanted, self.attempt.look()[0].state == wanted)
                assert found is not word.startswith("not "), step
            if cause:
                assert (self.attempt.look()[0].cause or "nothing") == cause

    @property
    def facts(self) -> dict[str, bool]:
        """Return what else is known of it."""
        return {
            "missed": self.attempt.is_missed(),
            "may live on": self.attempt.may_live_on(),
            "news": self.attempt.may_have_news(),
            "begun": self.attempt.has_begun(),
        }

    def waits(self, seconds: float) -> None:
        self._clock.advance(int(seconds * 1e9))

    def _take(self, what: str) -> None:
        folder = str(self.folder)
        seen = SEEN.fullmatch(what)
        if seen is not None:
            self.waits(int(seen[1]))
            if seen[2]:
                self._sees(seen[2].replace("none", ""), seen[3])
        elif what == "begins":
            assert take_claim(folder, BEGUN)
        elif what == "is withdrawn":
            assert withdraw(folder)
        elif what == "is submitted again":
            self.attempt.asked_s = clock.monotonic_s()
        elif what.startswith("is told "):
            note_leaving(folder, what.removeprefix("is told "))
        else:
            name, content = RECORDS[what]
            put(f"{folder}/{name}", content)

    def _sees(self, states: str, left_s: str | None) -> None:
        """Have squeue tell of Slurm jobs of the attempt."""
        start_s = None if left_s is None else int(time.time()) + int(left_s) - 5_400
        jobs = [
            queued(
                attempt_job_name("lab", *KEY),
                id=number,
                state=state,
                time_limit_s=5_400,
                start_s=start_s,
            )
            for number, state in enumerate(filter(None, states.split(",")), 1)
        ]
        self.view = QueueView.of("lab", "me", clock.monotonic_s(), jobs)


RECORDS: dict[str, tuple[str, dict[str, object]]] = {
    "starts": ("started", STARTED),
    "ends": ("status", STATUS),
    "leaves": ("status", SUSPENDED),
    "fences itself": ("status", {**STATUS, "why": "fence"}),
    "is refused": ("refusal", {"cause": "user ana is not known on this host"}),
}


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    """An attempt of which nothing is known yet."""
    virtual = VirtualClock()
    with clock_set(virtual):
        yield Case(tmp_path, virtual)


CANCELLED = "it was cancelled in Slurm (scancel)"
LIMIT = "Slurm's time limit of 1 h 30 min ended it"
LIVES = """
without trouble
    -> starting; 20s PENDING -> starting; begins; 5s RUNNING -> starting; starts -> running
    100s COMPLETING -> running; ends -> ended; 9000s none -> ended
an answer that was asked for too early says nothing
    14s none -> not missed; 2s none -> missed, starting; is submitted again -> not missed
a queue that does not answer ends nothing
    begins; starts; 100000s -> running, not missed, not may live on
an end in Slurm is believed once records had their time
    begins; starts; 30s CANCELLED -> running, not may live on
    14s CANCELLED -> running; 2s CANCELLED -> lost as it was cancelled in Slurm (scancel)
an end that was seen too early to count is looked at again
    begins; starts; 4s CANCELLED -> running, not news; 12s CANCELLED -> news, running
    901s CANCELLED -> lost as it was cancelled in Slurm (scancel)
also where processes may live on
    begins; starts; 4s NODE_FAIL -> running, not news; 12s NODE_FAIL -> news, running
    901s NODE_FAIL -> lost as Slurm ended it: NODE_FAIL
a claim without a start is absent once Slurm ended it
    begins; 30s FAILED -> starting; 16s FAILED -> absent as Slurm ended it: FAILED
processes of a server that failed are waited for
    begins; starts; 30s NODE_FAIL -> running, may live on
    899s NODE_FAIL -> running; 2s NODE_FAIL -> lost as Slurm ended it: NODE_FAIL
so are those of a job that Slurm has forgotten
    begins; starts; 30s none -> running, may live on
    899s none -> running; 2s none -> lost as Slurm ended it: forgotten
and of one of several
    begins; starts; 30s CANCELLED,NODE_FAIL -> running, may live on
    899s CANCELLED,NODE_FAIL -> running; 2s CANCELLED,NODE_FAIL -> lost
a job that is back was never over
    begins; starts; 30s none; 890s none; 5s RUNNING -> running
    20s none -> running; 100s none -> running
what was withdrawn is absent whatever Slurm has
    is withdrawn; 30s RUNNING,PENDING -> absent as taken back while it waited in Slurm's queue
what ended itself for a node that failed says so
    begins; starts; 30s NODE_FAIL; fences itself -> ended as Slurm ended it: NODE_FAIL
an attempt that the time limit ended says so at once
    begins; starts; 30s RUNNING left 100s; is told SIGUSR2
    leaves -> ended as Slurm's time limit of 1 h 30 min ended it
a notice is not told as the limit before squeue has told when it started
    begins; starts; 0s PENDING; is told SIGUSR2; leaves -> running
    5s FAILED left 5400s -> ended as Slurm sent it SIGUSR2, and has not said why
the cause of an end by SIGTERM is awaited
    begins; starts; 30s RUNNING; is told SIGTERM; leaves -> running
    5s COMPLETING -> running, news
    5s TIMEOUT -> ended as Slurm's time limit of 1 h 30 min ended it
for a while
    begins; starts; is told SIGTERM; leaves -> running
    16s -> ended as Slurm sent it SIGTERM, and has not said why
a job that ends as it would have anyway has no cause of Slurm's
    begins; starts; is told SIGTERM; ends -> ended as nothing
the refusal of a node is why it is absent
    begins; is refused -> absent as user ana is not known on this host
what runs has begun though its folder is gone
    -> not begun; 20s PENDING -> not begun; 5s RUNNING -> begun
"""
ROWS = [part.split("\n", 1) for part in re.split(r"\n(?=\S)", LIVES.strip())]


@pytest.mark.parametrize("life", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_attempt_stands_as_its_folder_and_the_queue_say(case: Case, life: str) -> None:
    case.lives(life)


@pytest.mark.parametrize(
    ("signal", "seen", "cause"),
    [
        ("SIGUSR2", "0s CANCELLED left 3600s", CANCELLED),
        ("SIGUSR2", "0s PREEMPTED left 3600s", "it was preempted in Slurm"),
        ("SIGUSR2", "0s FAILED left 3600s", "Slurm sent it SIGUSR2, and has not said why"),
        ("SIGUSR2", "0s FAILED left 170s", LIMIT),
        ("SIGTERM", "5s CANCELLED", CANCELLED),
        ("SIGTERM", "5s PREEMPTED", "it was preempted in Slurm"),
        ("SIGTERM", "5s FAILED", "Slurm sent it SIGTERM, and has not said why"),
    ],
)
def test_cause_of_a_notice_is_what_slurm_says(
    case: Case, signal: str, seen: str, cause: str
) -> None:
    case.lives(f"begins; starts; is told {signal}; leaves; {seen} -> ended as {cause}")


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
