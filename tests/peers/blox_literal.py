"""The public Blox simulator once more, as literally as its description allows.

Rounds of 300 s. At the start of each one the jobs that have arrived are put in order and run from
the first on, until one does not fit. A job ends at the first multiple of 300 s at which its work is
done. It shares no code with Shunter. Jobs here are of one GPU each, as in all published runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

ROUND_S = 300
SCHEDULES = ("fifo", "las", "srtf")


@dataclass(frozen=True)
class BloxJob:
    """A row of a job list; the length in milliseconds."""

    job_id: str
    arrival_s: int
    length_ms: int


@dataclass(eq=False)
class Entry:
    job: BloxJob
    place: int
    left_s: Fraction
    run_s: int = 0


def blox_ends(jobs: Sequence[BloxJob], gpus: int, schedule: str) -> dict[str, int]:
    """Return when each job ends, in seconds."""
    coming = sorted(jobs, key=lambda job: job.arrival_s)
    active: list[Entry] = []
    ends: dict[str, int] = {}
    arrived, now_s = 0, 0
    while len(ends) < len(jobs):
        while arrived < len(coming) and coming[arrived].arrival_s <= now_s:
            job = coming[arrived]
            active.append(Entry(job, arrived, Fraction(job.length_ms, 1000)))
            arrived += 1
        keys = {
            "fifo": lambda entry: entry.place,
            "las": lambda entry: (entry.run_s, entry.place),
            "srtf": lambda entry: (entry.left_s, entry.place),
        }
        active.sort(key=keys[schedule])
        for entry in active[:gpus]:
            entry.run_s += ROUND_S
            entry.left_s -= ROUND_S
            if entry.left_s <= 0:
                ends[entry.job.job_id] = now_s + ROUND_S
        active = [entry for entry in active if entry.left_s > 0]
        now_s += ROUND_S
    return ends
