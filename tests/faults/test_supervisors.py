"""The supervisors of an agent: short attempts have one after the other, and each has its own.

Whoever is killed ends what runs under him, and nothing else.
"""

import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node import StartAnswer, attempts, messages, stat_of, supervisors
from tests.faults.supervised import Machine, is_alive, machine_at, wait_for
from tests.faults.test_supervisor import FORKS_AWAY, SLEEPS
from tests.live.ssh.farm import parent_of

pytestmark = pytest.mark.live

SAYS = "print('up', flush=True)"


@dataclass
class Agent:
    """What of an agent starts attempts, in this process."""

    machine: Machine
    poll: select.poll = field(default_factory=select.poll)

    def __post_init__(self) -> None:
        self.own = supervisors.Supervisors(self.poll)

    def starts(self, order: dict[str, Any]) -> tuple[int, StartAnswer]:
        """Start an attempt; return its supervisor's file and what came of the start."""
        found = self.own.begin(str(self.machine.root), messages.Order.decoded(order), is_new=False)
        assert isinstance(found, int)
        while True:
            for file, _ in self.poll.poll():
                answer = self.own.hear(file)
                if file == found and answer is not None:
                    return found, answer

    def runs(self, attempt: int, program: str = SAYS, **fields: Any) -> int:
        """Run an attempt to its end; return the process of its supervisor, which is idle now."""
        file, answer = self.starts(self.machine.order(program, attempt=attempt, **fields))
        assert answer.answer == "started"
        supervisor = self.machine.supervisor(attempt)
        assert self.machine.status(attempt)["code"] == 0
        self.awaits(file)
        return supervisor

    def awaits(self, file: int) -> None:
        """Wait until a supervisor is idle."""
        while file not in [ready for ready, _ in self.poll.poll()]:
            pass
        assert self.own.hear(file) is None


def stop(pid: int) -> None:
    """Stop a process, and wait until it is."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: stat_of(pid)[:1] == [b"T"], "its stop")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_at(tmp_path) as found:
        yield found


@pytest.fixture
def agent(machine: Machine) -> Iterator[Agent]:
    found = Agent(machine)
    yield found
    found.own.let_go()


def test_short_attempts_have_one_supervisor_after_the_other(agent: Agent) -> None:
    assert len({agent.runs(number) for number in (1, 2, 3)}) == 1


def test_attempt_that_runs_has_a_supervisor_of_its_own(agent: Agent, machine: Machine) -> None:
    agent.starts(machine.order(SLEEPS))
    agent.runs(2)
    assert machine.supervisor(1) != machine.supervisor(2)
    assert machine.state(1) == "running"


def test_idle_supervisor_holds_nothing_of_its_last_attempt(agent: Agent, machine: Machine) -> None:
    idle = agent.runs(1)
    opened = [str(path.readlink()) for path in sorted(Path(f"/proc/{idle}/fd").iterdir())]
    assert [path for path in opened if not path.startswith("socket:")] == ["/dev/null"] * 3
    assert len(opened) == 4
    assert attempts.running(str(machine.root), []) == []


def test_kill_of_a_supervisor_ends_its_own_attempt_alone(agent: Agent, machine: Machine) -> None:
    agent.starts(machine.order(SLEEPS))
    first = agent.runs(2)
    program = FORKS_AWAY + "\ntime.sleep(60)"
    _, answer = agent.starts(machine.order(program, attempt=3))
    stray = int(machine.said("up", 3).split()[0])
    assert (answer.answer, machine.supervisor(3)) == ("started", first)
    reaper = parent_of(first)
    machine.kill_supervisor(3)
    wait_for(lambda: not is_alive(reaper), "the end of the reaper")
    assert not is_alive(stray)
    assert [machine.state(number) for number in (1, 2, 3)] == ["running", "ended", "lost"]
    assert machine.status(2)["code"] == 0


def test_idle_supervisor_that_was_killed_costs_no_attempt(agent: Agent) -> None:
    idle = agent.runs(1)
    os.kill(idle, signal.SIGKILL)
    wait_for(lambda: not is_alive(idle), "its end")
    assert agent.runs(2) != idle


def test_idle_supervisor_ends_with_its_reaper(agent: Agent) -> None:
    idle = agent.runs(1)
    os.kill(parent_of(idle), signal.SIGKILL)
    wait_for(lambda: not is_alive(idle), "the end of the supervisor")
    assert agent.runs(2) != idle


def test_supervisor_whose_reaper_was_killed_has_no_other_attempt(
    agent: Agent, machine: Machine
) -> None:
    program = "import time; time.sleep(1)"
    _, answer = agent.starts(machine.order(program))
    first = machine.supervisor(1)
    os.kill(parent_of(first), signal.SIGKILL)
    assert (answer.answer, machine.status(1)["code"]) == ("started", 0)
    wait_for(lambda: not is_alive(first), "the end of the supervisor")
    assert agent.runs(2) != first


def test_idle_supervisor_obeys_no_signal_for_its_last_job(agent: Agent, machine: Machine) -> None:
    idle = agent.runs(1)
    before = (machine.folder() / "status").read_bytes()
    os.kill(idle, signal.SIGTERM)
    wait_for(lambda: not is_alive(idle), "its end")
    assert not (machine.folder() / "suspend").exists()
    assert (machine.folder() / "status").read_bytes() == before


def test_end_of_an_agent_ends_idle_supervisors_and_no_attempt(
    agent: Agent, machine: Machine
) -> None:
    agent.starts(machine.order("import time; time.sleep(0.5)"))
    idle, reaper = agent.runs(2), parent_of(machine.supervisor(2))
    agent.own.let_go()
    wait_for(lambda: not is_alive(idle) and not is_alive(reaper), "the end of both")
    supervisor = machine.supervisor(1)
    assert machine.status(1)["code"] == 0
    wait_for(lambda: not is_alive(supervisor), "its end")


def test_supervisor_is_dismissed_once_it_was_idle_for_long(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = agent.runs(1)
    agent.own.dismiss()
    assert is_alive(idle)
    monkeypatch.setattr(supervisors, "IDLE_S", 0.0)
    agent.own.dismiss()
    wait_for(lambda: not is_alive(idle), "its end")


def test_stopped_supervisor_that_reads_no_order_is_killed(
    agent: Agent, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = agent.runs(1)
    stop(idle)
    order = messages.Order.decoded(machine.order(SLEEPS, attempt=2))
    file = agent.own.begin(str(machine.root), order, is_new=False)
    assert isinstance(file, int)
    agent.own.dismiss()
    assert is_alive(idle)
    monkeypatch.setattr(supervisors, "UNREAD_S", 0.0)
    agent.own.dismiss()
    assert agent.poll.poll(10_000)
    assert agent.own.hear(file) == StartAnswer(answer="unknown")
    wait_for(lambda: machine.state(2) == "absent", "the end of the lock in the message")
    assert agent.runs(2) != idle


def test_stopped_supervisor_is_dismissed_by_a_kill(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = agent.runs(1)
    stop(idle)
    monkeypatch.setattr(supervisors, "IDLE_S", 0.0)
    agent.own.dismiss()
    wait_for(lambda: not is_alive(idle), "its end")


def test_fence_that_came_meanwhile_refuses_an_order_that_is_handed_over(
    agent: Agent, machine: Machine
) -> None:
    first = agent.runs(1)
    attempts.raise_fence(str(machine.root), "j0", 2)
    file, answer = agent.starts(machine.order(SLEEPS, attempt=2))
    assert answer.answer == "refused"
    agent.awaits(file)
    assert machine.state(2) == "absent"
    assert agent.runs(3) == first


@pytest.mark.parametrize(
    "fields",
    [
        {"ranks": [{"env": {"LONG": "x" * supervisors.ORDER_BYTES_MOST}}]},
        {"is_bound": True},
    ],
    ids=["more than a message holds", "bound to its agent"],
)
def test_order_that_cannot_be_handed_over_has_a_new_supervisor(
    fields: dict[str, Any], agent: Agent, machine: Machine
) -> None:
    idle = agent.runs(1)
    order = machine.order(SAYS, attempt=2)
    for rank, given in zip(order["ranks"], fields.pop("ranks", [{"env": {}}]), strict=True):
        rank["env"] |= given["env"]
    agent.starts({**order, **fields})
    assert machine.supervisor(2) != idle
    assert machine.status(2)["code"] == 0


def test_job_finds_the_mark_of_its_own_attempt(agent: Agent, machine: Machine) -> None:
    """A mark counts on processes that began after its launch: the supervisor is older."""
    agent.runs(1)
    time.sleep(0.05)
    agent.starts(machine.order(SLEEPS, attempt=2))
    machine.said("up", 2)
    (key,) = attempts.alive_below(str(machine.root))
    assert key == ("j0", 2)
    assert len(attempts.alive_below(str(machine.root))[key].marked) == 1


def test_environment_of_the_agent_is_not_the_jobs(agent: Agent, machine: Machine) -> None:
    agent.runs(1)
    shows = "import os; print(sorted(os.environ)); print('up')"
    agent.runs(2, shows)
    own = eval(machine.said("up", 2).splitlines()[0])  # noqa: S307 what our own job printed
    ours = {"PATH", "RANK", "WORLD_SIZE", attempts.MARK, attempts.SEAL}
    assert set(own) - {"LC_CTYPE"} == ours | {"SHUNTER_SUSPEND", "SHUNTER_CHANNEL"}
