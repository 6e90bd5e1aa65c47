"""What is foreseen in the simulated world, in the order in which it comes."""

from heapq import heappop, heappush
from typing import Any

from shunter.backends.simulated.samples import SampleDue
from shunter.backends.simulated.turning.turns import Ready
from shunter.backends.simulated.work import Run
from shunter.core.state import NEVER_US
from shunter.events.facts.execution import (
    AttemptStarted,
    JobContinued,
    JobStopped,
    SpeedChanged,
    TurnEnded,
    TurnStarted,
)
from shunter.events.values.fact import replace
from shunter.events.values.ids import JobId

_OF_ONE_ATTEMPT = (
    AttemptStarted,
    SpeedChanged,
    JobStopped,
    JobContinued,
    Ready,
    TurnStarted,
    TurnEnded,
)


class Agenda:
    """Entries by instant, then by their job's place in the trace, then by age.

    An entry is `(at_us, ordinal, number, job_id, what)`. What is foreseen of an attempt that has
    gone, or now ends at another instant, is void; `runs` says which those are.
    """

    __slots__ = ("_entered", "_runs", "entries")

    def __init__(self, runs: dict[JobId, Run]) -> None:
        self._runs = runs
        self._entered = 0
        self.entries: list[tuple[int, int, int, JobId, Any]] = []

    def enter(self, at_us: int, ordinal: int, job_id: JobId, what: Any) -> None:
        """Foresee something of a job."""
        self._entered += 1
        heappush(self.entries, (at_us, ordinal, self._entered, job_id, what))

    def next_us(self) -> int:
        """Return the instant of the first entry, dropping void ones; `NEVER_US`: none."""
        entries, runs = self.entries, self._runs
        while entries:
            at_us, _, _, job_id, what = entries[0]
            if runs.get(job_id) is what or not is_void(job_id, what, runs):
                return at_us
            heappop(entries)
        return NEVER_US

    def ends_at(self, at_us: int) -> list[JobId] | None:
        """Return whose ends are foreseen at an instant, in order of their jobs.

        None: the first entry is at another instant.
        """
        if self.next_us() != at_us or not self.entries:
            return None
        runs = self._runs
        foreseen = sorted(entry[:4] for entry in self.entries if runs.get(entry[3]) is entry[4])
        return [job_id for end_us, _, _, job_id in foreseen if end_us == at_us]


def is_void(job_id: JobId, what: Any, runs: dict[JobId, Run]) -> bool:
    """Say whether a foreseen end or start will not come: the attempt has gone."""
    if isinstance(what, Run):
        return runs.get(job_id) is not what
    if isinstance(what, SampleDue):
        run = runs.get(job_id)
        return run is None or (run.attempt, run.stops) != (what.attempt, what.stops)
    if isinstance(what, _OF_ONE_ATTEMPT):
        run = runs.get(job_id)
        return run is None or run.attempt != what.attempt
    return False


def at_its_speed(started: AttemptStarted, runs: dict[JobId, Run]) -> AttemptStarted:
    """Return the start of an attempt, told now, with the speed it has by now."""
    run = runs[started.job_id]
    run.told = True
    speed = run.step_rate.speed
    return started if started.speed == speed else replace(started, speed=speed)
