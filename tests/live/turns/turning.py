"""Attempts that share the GPUs of a server in turns, and what their journals say of that."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from shunter.backends.node import attempts, folder_of, read_journal
from tests.faults.supervised import Machine, pid_of, wait_for

QUANTUM_US = 300_000
ALL = 1 << 62


class Turning:
    """Attempts on a server of four GPUs, and what their journals say."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.root = machine, str(machine.root)
        self.jobs: list[str] = []

    def starts(self, mask: int, program: str = "import time; time.sleep(600)", **how: Any) -> str:
        job = f"s{len(self.jobs)}"
        slicing = {"weight": 1.0, "is_fixed": False, "quantum_us": QUANTUM_US}
        order = self.machine.order(
            program,
            placement=[("n0", mask)],
            slicing={**slicing, "wait_most_us": None, "boundary_most_us": 2_000_000, **how},
        )
        assert self.machine.starts({**order, "job": job})["answer"] == "started"
        self.jobs.append(job)
        return job

    def notes(self, job: str) -> list[Any]:
        found: list[Any] = []
        while True:
            piece = read_journal(folder_of(self.root, job, 1), len(found))
            found += piece["notes"]
            if piece["is_all"]:
                return found

    def turns(self, job: str) -> list[tuple[int, int, int]]:
        """Return the turns of a job: from when to when, in nanoseconds, and on which GPUs."""
        found: list[tuple[int, int, int]] = []
        for note in self.notes(job):
            if note["what"] == "turn_started":
                assert not found or found[-1][1] < ALL, "two turns at once"
                found.append((note["at_ns"], ALL, note["mask"]))
            elif note["what"] == "turn_ended":
                began, end, mask = found[-1]
                assert end == ALL
                found[-1] = (began, note["at_ns"], mask)
        return found

    def waits_for_turns(self, count: int, *jobs: str) -> None:
        goals = {job: len(self.turns(job)) + count for job in jobs or self.jobs}
        wait_for(
            lambda: all(len(self.turns(job)) >= goal for job, goal in goals.items()),
            f"{count} more turns of {', '.join(goals)}",
            lambda: "\n".join(f"{job}: {self.turns(job)}" for job in self.jobs),
        )

    def has_turn(self, job: str) -> bool:
        return any(end == ALL for _, end, _ in self.turns(job)[-1:])

    def waits_for_its_turn(self, job: str) -> None:
        wait_for(lambda: self.has_turn(job), f"the turn of {job}")

    def had(self, job: str, since_ns: int, until_ns: int) -> int:
        """Return the time of its turns in a stretch, in nanoseconds."""
        return sum(
            max(0, min(end, until_ns) - max(began, since_ns)) for began, end, _ in self.turns(job)
        )

    def sends(self, job: str, do: str, **fields: Any) -> None:
        assert attempts.send(folder_of(self.root, job, 1), {"do": do, "term": 1, **fields})

    def supervisor(self, job: str) -> int:
        return pid_of(attempts.probe(folder_of(self.root, job, 1)))

    def ends(self, job: str) -> None:
        self.sends(job, "fence")
        folder = folder_of(self.root, job, 1)
        wait_for(lambda: attempts.probe(folder)["state"] == "ended", f"the end of {job}")

    def is_never_shared(self) -> bool:
        """Say whether no GPU was ever two attempts' at once."""
        for gpu in range(4):
            spans = sorted(
                (began, end)
                for job in self.jobs
                for began, end, mask in self.turns(job)
                if mask >> gpu & 1
            )
            if any(end > later for (_, end), (later, _) in pairwise(spans)):
                return False
        return True


@contextmanager
def turning_at(machine: Machine) -> Iterator[Turning]:
    """Share a machine in turns, and end all that did."""
    made = Turning(machine)
    yield made
    for job in made.jobs:
        attempts.send(folder_of(made.root, job, 1), {"do": "fence", "term": 1})
