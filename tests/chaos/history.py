"""What is known of a run when it is over: the log's events, and what the jobs bear witness of.

Nothing here asks the scheduler what it believes: events are read as they were exported, and the
rest was written by the jobs themselves and by whoever did the faults.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.scenario import JobPlan

__all__ = ["ENDS", "Event", "Freeze", "History", "Process", "Sign", "read_events", "read_processes"]

Event = Mapping[str, Any]
"""An event as `shunter log export` writes it."""

ENDS = ("JobFinished", "JobFailed", "JobCancelled", "JobRejected")


@dataclass(frozen=True, slots=True)
class Sign:
    """One line of a process: what it did, and when by the clock that all hosts here share."""

    ns: int
    what: str
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def step(self) -> int:
        """The step it is about."""
        return int(self.said["step"])


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a rank of an attempt, by its own signs; it lived at least as long."""

    job: str
    attempt: int
    rank: int
    node: str
    signs: tuple[Sign, ...]

    @property
    def begun(self) -> Sign | None:
        """Its beginning; a helper that a rank forked has none."""
        return next((sign for sign in self.signs if sign.what == "begun"), None)

    @property
    def gpus(self) -> list[str]:
        """The GPUs it was given."""
        return [] if self.begun is None else list(self.begun.said["gpus"])

    def steps(self, what: str) -> list[Sign]:
        """Return its signs of one kind."""
        return [sign for sign in self.signs if sign.what == what]

    def __str__(self) -> str:
        return f"{self.job}, attempt {self.attempt}, rank {self.rank} on {self.node}"


@dataclass(frozen=True, slots=True)
class Freeze:
    """When a host stood still."""

    node: str
    from_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class History:
    """A run that is over.

    `ids` are the jobs whose submission was acknowledged, by key; `cancelled` are keys that somebody
    wanted to end; `complaints` are what was wrong to the eye of whoever ran it, by kind.
    """

    plans: Mapping[str, JobPlan]
    ids: Mapping[str, str]
    events: tuple[Event, ...]
    processes: tuple[Process, ...]
    freezes: tuple[Freeze, ...] = ()
    cancelled: frozenset[str] = frozenset()
    has_shared_checkpoints: bool = False
    rows: int | None = None
    complaints: tuple[tuple[str, str], ...] = ()

    def of_job(self, job: str) -> list[Event]:
        """Return the events about a job, in order."""
        return [event for event in self.events if event.get("job_id") == job]

    def processes_of(self, job: str) -> list[Process]:
        """Return the processes of a job, in order of attempt and rank."""
        found = [process for process in self.processes if process.job == job]
        return sorted(found, key=lambda each: (each.attempt, each.rank, each.signs[0].ns))

    def plan_of(self, job: str) -> JobPlan | None:
        """Return what was submitted as a job, if we did."""
        keys = [event["dedupe_key"] for event in self.of_kind("JobSubmitted", job)]
        return self.plans.get(keys[0]) if keys else None

    def of_kind(self, kind: str, job: str | None = None) -> list[Event]:
        """Return the events of a kind, of one job if it is named."""
        found = [event for event in self.events if event["kind"] == kind]
        return found if job is None else [each for each in found if each.get("job_id") == job]


def read_events(lines: Iterable[str]) -> tuple[Event, ...]:
    """Return the events of an export."""
    return tuple(json.loads(line) for line in lines)


def read_processes(folder: Path) -> tuple[Process, ...]:
    """Return what the jobs have written into their folder."""
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    return tuple(_process(path) for path in paths if path.stat().st_size)


def _process(path: Path) -> Process:
    job, attempt, rank, node, _ = path.name.split(".")
    # What was killed in mid-line has not said it.
    lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    said = [json.loads(line) for line in lines]
    signs = tuple(Sign(each.pop("ns"), each.pop("what"), each) for each in said)
    return Process(job, int(attempt), int(rank), node, signs)
