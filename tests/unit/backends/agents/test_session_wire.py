"""The agent itself, in a process of its own: it takes our questions, and we its answers."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from shunter.backends.live import (
    decode_answer,
    decode_greeting,
    decode_line,
    decode_news,
    decode_number,
    encode_question,
)
from shunter.backends.node import (
    PROTOCOL,
    TOLD_OF_JOB,
    Answer,
    Claimed,
    ClaimRefused,
    Failed,
    Greeting,
    Known,
    messages,
    pids_of,
    processes,
    uptime_ns,
)
from tests.faults.supervised import wait_for
from tests.unit.backends.agents.test_zip_application import PYTHONS, application
from tests.unit.backends.node.orders import order_of, rank_of

pytestmark = pytest.mark.live

A = TypeVar("A", bound=Answer)
LATE_S = 20.0
JOB = "echo said; echo saved; exec sleep 60"


class Agent:
    """A session that is asked one question after the other; news in between are kept."""

    def __init__(self, python: str, file: Path, base: Path) -> None:
        self._process = subprocess.Popen(
            [python, "-I", "-S", str(file), "serve", str(base), "NONCE"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._number = 0
        self.news: list[Known] = []
        assert self._line() == b"\n"
        self.greeting: Greeting = decode_greeting(self._line().partition(b" ")[2])

    def ask(self, question: messages.Question[A]) -> A:
        found = self.ask_all(question)
        assert not isinstance(found, Failed), found.error
        return found

    def ask_all(self, question: messages.Question[A]) -> A | Failed:
        """Ask; return the answer, be it that it could not be done."""
        self._number += 1
        assert self._process.stdin is not None
        self._process.stdin.write(encode_question(self._number, question))
        self._process.stdin.flush()
        while True:
            told = decode_line(self._line())
            number = decode_number(told)
            if number is not None:
                assert number == self._number
                return decode_answer(type(question), told)
            self.news += decode_news(told)

    def close(self) -> None:
        self._process.communicate(timeout=LATE_S)

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture(params=PYTHONS)
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    """An agent of a node of its own, run from the file that hosts are given."""
    file = tmp_path / "agent.pyz"
    file.write_bytes(application())
    found = Agent(str(request.param), file, tmp_path / "base")
    file.unlink()  # it may be gone while a session lives, which has read all of it that it needs
    yield found
    found.close()


def claim(node: str = "n0") -> messages.Claim:
    asked_ns = uptime_ns()
    return messages.Claim(asked_ns=asked_ns, cluster="c0", term=3, holder="h", node=node, cgroup="")


def order(root: str, job: str, command: str) -> messages.Order:
    cpus = sorted(os.sched_getaffinity(0))
    rank = rank_of("/bin/sh", "-c", command, env={"PATH": os.defpath}, cpus=cpus, gpus=["0"])
    suspend = {"mode": "restart", "signal": 10}
    suspend |= dict.fromkeys(("cooperative_s", "signal_s", "restart_s"), 5.0)
    beat = {"path": f"{root}/heartbeat", "deadline_s": 60.0, "is_remote": True}
    found = {"term": 3, "placement": [("n0", 1 << 70)], "ranks": [rank], "suspend": suspend}
    found |= {"job": job, "gpus": ["0"], "port": 29_500, "sample_s": 0.1, "heartbeat": beat}
    return order_of(**found, checkpoints=f"{root}/jobs/{job}/checkpoints", memory_mb=0)


def before() -> int:
    """Return by when an attempt is to start: in time."""
    return uptime_ns() + 10**11


def started(agent: Agent, job: str, command: str = JOB) -> Known:
    """Have a job started on a node that was claimed; return what is known of it."""
    claimed = agent.ask(claim())
    assert isinstance(claimed, Claimed)
    asked = order(claimed.root, job, command)
    answer = agent.ask(messages.Start(order=asked, before_ns=before()))
    assert answer.answer == "started", answer.cause
    assert answer.known is not None
    return answer.known


def look(agent: Agent, job: str, *, anew: bool = False) -> list[Known]:
    attempts = ((job, 1),) if anew else ()
    asked = messages.Look(
        asked_ns=uptime_ns(), watched=((job, 1, 0, 0),), anew=attempts, is_all=True
    )
    return list(agent.ask(asked).changed)


def ended(agent: Agent, job: str) -> Known:
    """Look until a job has ended; return what is known of it then."""
    found: list[Known] = []

    def is_over() -> bool:
        found[:] = [known for known in look(agent, job, anew=True) if known.state == "ended"]
        return bool(found)

    wait_for(is_over, "its end")
    return found[0]


def test_greeting_and_claim(agent: Agent) -> None:
    assert agent.greeting.protocol == PROTOCOL
    assert agent.greeting.uid == os.geteuid()
    claimed = agent.ask(claim())
    assert isinstance(claimed, Claimed)
    assert (claimed.root, claimed.term) == (f"{agent.greeting.base}/clusters/c0", 3)
    beaten = agent.ask(messages.Beat(asked_ns=uptime_ns()))
    assert beaten.up_ns >= agent.greeting.up_ns
    other = agent.ask(claim(node="n1"))
    assert isinstance(other, ClaimRefused)
    assert other.refused == "shared"


def test_job_is_started_looked_at_read_and_suspended(agent: Agent) -> None:
    known = started(agent, "j1")
    assert known.started is not None
    assert known.started.placement == (("n0", 1 << 70),)
    assert known.started.port == 29_500
    assert agent.ask(messages.Port(ports=(29_500,))).port is None
    assert agent.ask(messages.Port(ports=())).port is None
    (seen,) = look(agent, "j1", anew=True)
    assert (seen.state, seen.status, seen.is_all) == ("running", None, True)
    assert [each.job for each in agent.ask(messages.Inventory(wanted=())).attempts] == ["j1"]
    told = messages.Send(job="j1", attempt=1, order=messages.Command(do="suspend"))
    assert agent.ask(told).taken
    over = ended(agent, "j1")
    assert over.status is not None
    assert (over.status.suspended, over.status.why) == (True, "suspend")
    assert [(note.what, note.mode) for note in over.notes] == [("requested", "restart")]
    wait_for(lambda: not agent.ask(told).taken, "the end of its supervisor")
    read = agent.ask(messages.Read(job="j1", attempt=1, name="stdout.0", offset=5, bytes=100))
    assert (read.data, read.size) == ("saved\n", 11)
    none = agent.ask(messages.Read(job="j1", attempt=2, name="stdout.0", offset=0, bytes=1))
    assert (none.data, none.size) == ("", None)
    assert {(each.job, each.attempt) for each in agent.news} == {("j1", 1)}


def test_job_is_held_to_its_shares_and_to_others_and_what_holds_now_is_told(agent: Agent) -> None:
    """By whatever this machine has: of a quota the parts of a CPU hold, else whole ones."""
    claimed = agent.ask(claim().replaced(is_limited=True))
    assert isinstance(claimed, Claimed)
    by_quota, memory_held = "quotas" in claimed.shares, "memory by" in claimed.shares
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    few = messages.Shares(cpus_milli=500, memory_mb=64, cpus=cpus)
    sized = order(claimed.root, "j1", JOB).replaced(shares=few, memory_mb=64)
    answer = agent.ask(messages.Start(order=sized, before_ns=before()))
    assert answer.answer == "started", answer.cause
    for cpus_milli, memory_mb in ((500, 64), (800, 128), (800, 128)):
        shares = few.replaced(cpus_milli=cpus_milli, memory_mb=memory_mb)
        now = agent.ask(messages.Reshape(job="j1", attempt=1, shares=shares))
        assert now.cause == ""
        assert now.cpus_milli == (cpus_milli if by_quota else 1000)
        assert now.memory_mb == (memory_mb if memory_held else 0)
        assert now.cpus == (() if by_quota else cpus[:1])
    agent.ask(messages.Fence(job="j1", attempt=1))
    ended(agent, "j1")
    now = agent.ask(messages.Reshape(job="j1", attempt=1, shares=few))
    assert now.cause == "it is not running, but ended"


def switched(agent: Agent, stops: list[str], continues: list[str]) -> list[tuple[str, str]]:
    """Have first attempts of jobs stop and others go on; return how they stand."""
    asked = messages.Switch(
        stops=tuple((job, 1) for job in stops), continues=tuple((job, 1) for job in continues)
    )
    return [(stand.job, stand.stance) for stand in agent.ask(asked).stands]


def test_switch_stops_one_attempt_before_another_goes_on_and_may_be_repeated(agent: Agent) -> None:
    """With a process that one has started in a session of its own."""
    command = "setsid sleep 600 & exec sleep 600"
    root = str(Path(started(agent, "j1", command=command).folder).parents[2])
    started(agent, "j2", command=command)
    assert switched(agent, ["j2"], []) == [("j2", "stopped")]
    for stops, continues in (("j1", "j2"), ("j1", "j2"), ("j2", "j1")):
        told = switched(agent, [stops], [continues])
        assert told == [(stops, "stopped"), (continues, "running")]
        still = [_letter(pid) for pid in pids_of(root, (stops, 1), processes())]
        assert len(still) >= 2
        assert set(still) == {"T"}
        going = [_letter(pid) for pid in pids_of(root, (continues, 1), processes())]
        assert "T" not in going
    notes = [note.what for known in look(agent, "j1", anew=True) for note in known.notes]
    assert notes == ["stopped", "continued"]
    for job in ("j1", "j2"):
        agent.ask(messages.Fence(job=job, attempt=1))


def test_switch_says_who_is_gone_and_lets_the_other_go_on(agent: Agent) -> None:
    started(agent, "j1")
    started(agent, "j2")
    assert switched(agent, ["j2"], []) == [("j2", "stopped")]
    agent.ask(messages.Fence(job="j1", attempt=1))
    ended(agent, "j1")
    assert switched(agent, ["j1"], ["j2"]) == [("j1", "ended"), ("j2", "running")]
    assert switched(agent, ["j2"], ["j9"]) == [("j2", "stopped"), ("j9", "absent")]
    agent.ask(messages.Fence(job="j2", attempt=1))


def _letter(pid: int) -> str:
    """Return the letter of a process's state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_job_of_thousands_of_attempts_is_told_of_in_a_line_that_is_taken(agent: Agent) -> None:
    """Its newest attempts, and when it is fenced the one that is meant: all are ended with it."""
    folder = Path(started(agent, "j3").folder).parent
    for number in range(2, TOLD_OF_JOB + 9):
        (folder / str(number)).mkdir()
    found = agent.ask(messages.Inventory(job="j3")).attempts
    assert [each.attempt for each in found] == list(range(9, TOLD_OF_JOB + 9))
    (known,) = agent.ask(messages.Fence(job="j3", attempt=TOLD_OF_JOB + 8)).fenced
    assert known.attempt == TOLD_OF_JOB + 8
    assert ended(agent, "j3").attempt == 1


def test_look_at_some_uses_up_no_sample(agent: Agent) -> None:
    """Goal: what is told once goes to who takes it: the look at all of them."""
    known = started(agent, "j0")
    wait_for((Path(known.folder) / "sample").exists, "a sample")
    watched = (("j0", 1, 0, 0),)
    now_ns = uptime_ns()
    some = messages.Look(asked_ns=now_ns, watched=watched, anew=(("j0", 1),), is_all=False)
    every = messages.Look(asked_ns=now_ns, watched=watched, anew=(), is_all=True)
    assert agent.ask(some).samples == ()
    (found,) = agent.ask(every).samples
    assert (found.job, found.attempt, bool(found.pids)) == ("j0", 1, True)
    agent.ask(messages.Fence(job="j0", attempt=1))


def test_job_is_fenced_and_set_aside(agent: Agent) -> None:
    started(agent, "j1")
    assert agent.ask(messages.Fence(job="j1", attempt=2)).fenced == ()
    over = ended(agent, "j1")
    assert over.status is not None
    assert over.status.why == "fence"
    started(agent, "j2")
    question = messages.SetAside(job="j2", attempt=1)
    wait_for(lambda: agent.ask(question).is_over, "its end")
    assert agent.ask(messages.SetAside(job="j9", attempt=1, is_stray=True)).is_over
    (known,) = agent.ask(messages.Inventory(job="j1")).attempts
    assert known.state == "ended"
    both = agent.ask(messages.Inventory(wanted=(("j1", 1), ("j7", 4)))).attempts
    assert [(each.job, each.state) for each in both] == [("j1", "ended"), ("j7", "absent")]
    assert {each.job for each in agent.ask(messages.Inventory()).attempts} == {"j1", "j2"}


def test_order_that_comes_late_or_from_an_old_term_is_not_started(agent: Agent) -> None:
    claimed = agent.ask(claim())
    assert isinstance(claimed, Claimed)
    asked = order(claimed.root, "j1", "exit 0")
    answer = agent.ask(messages.Start(order=asked, before_ns=0))
    assert (answer.answer, answer.known) == ("late", None)
    agent.ask(messages.Fence(job="j1", attempt=1))
    answer = agent.ask(messages.Start(order=asked, before_ns=before()))
    assert answer.answer == "refused"
    assert "is fenced" in answer.cause
    assert answer.known is not None


def test_what_fails_is_told(agent: Agent) -> None:
    agent.ask(claim())
    found = agent.ask_all(messages.Read(job="j1", attempt=1, name="../x", offset=0, bytes=1))
    assert isinstance(found, Failed)
    assert found.error == "ValueError: no output is named '../x'"
