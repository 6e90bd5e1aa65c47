"""How much work a job has of which the future does not tell: drawn from what others worked.

A job that tells its steps and its mini-batches has what is left by them. Of any other the whole
work is drawn from what others worked that did more than it has done already: of the same user,
model and gang size where there are enough, else of the same user and gang size, else of the same
gang size, else of all. Its time limit bounds it. Where nobody did more it is taken to have twice
what is known, and an hour where that is nothing.

Who was stopped before the end, or still works, had at least so much: if it is drawn, one of those
that did more is drawn in its place, of a wider kind where none of its own did. Kaplan and Meier's
estimate of the distribution gives censored observations this weight (Efron, The two sample problem
with censored data, 1967: redistribution to the right).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shunter.app.cost_fitting import NOT_SLOWED, Slowed
from shunter.backends.simulated.resuming import TotalWork
from shunter.core import estimates
from shunter.core.rng import Rng
from shunter.core.state import Job
from shunter.events.values.ids import JobId, UserName
from shunter.events.values.job_spec import JobSpec

__all__ = ["ENOUGH", "UNSEEN_US", "WorkEstimates", "Worked", "resampled"]

ENOUGH = 5
"""So many jobs of a kind must have ended before its own work is drawn from them alone; ours."""

UNSEEN_US = 3_600_000_000
"""The work of a job of which nothing is known, not even how long others ran: one hour; ours."""

_Kind = tuple[object, ...]


class Worked(NamedTuple):
    """What a job worked in microseconds, in so many attempts.

    Not `is_whole`: it had more to do.
    """

    user: UserName
    gpus: int
    work_us: int
    model: str = ""
    is_whole: bool = True
    attempts: int = 1


class WorkEstimates:
    """What jobs have worked, and what others may therefore have to work.

    `drawn` are the jobs whose work was drawn, so that it is not certain. `start_us` is what each
    attempt counts as work before it has any effect, `slowed` what jobs counted that were slower by
    their contracts; neither is in any work of `worked`.
    """

    def __init__(
        self,
        worked: Iterable[Worked],
        seed: int,
        *,
        start_us: int = 0,
        slowed: Slowed = NOT_SLOWED,
    ) -> None:
        by_kind: dict[_Kind, list[tuple[int, bool]]] = defaultdict(list)
        for one in worked:
            for kind in _kinds(one.user, one.model, one.gpus):
                by_kind[kind].append((one.work_us, not one.is_whole))
        self._by_kind = {kind: sorted(found) for kind, found in by_kind.items()}
        self._ended = {
            kind: sum(not is_cut for _, is_cut in found) for kind, found in self._by_kind.items()
        }
        self._seed = seed
        self._start_us = start_us
        self._slowed = slowed
        self.drawn: dict[JobId, None] = {}

    def work_of(self, job_id: JobId, spec: JobSpec, job: Job | None, now_us: int) -> TotalWork:
        """Return the whole work of a job; `job` is what it is by now, if it is there."""
        done_us = 0 if job is None else job.done_us(now_us)
        if job is not None and job.measured_rate is not None and spec.total_steps is not None:
            left_us = estimates.remaining_us(job, now_us) or 0
            return TotalWork(done_us + round(left_us * self._slowed.speed(job_id, now_us)))
        self.drawn[job_id] = None
        begun_us = 0 if job is None else min(done_us, job.attempt * self._start_us)
        begun_us += self._slowed.by_us(job_id, now_us)
        total_us = self._drawn_us(job_id, spec, max(0, done_us - begun_us)) + begun_us
        limit_us = spec.time_limit_us
        if limit_us is not None:
            held_us = 0 if job is None else job.occupied_us(now_us)
            total_us = min(total_us, done_us + max(0, limit_us - held_us))
        return TotalWork(total_us)

    def _drawn_us(self, job_id: JobId, spec: JobSpec, done_us: int) -> int:
        rng, beyond_us = Rng(self._seed, "work", job_id), done_us
        for kind in _kinds(spec.user, spec.model, spec.gpus):
            found = self._by_kind.get(kind, [])
            if self._ended.get(kind, 0) < (ENOUGH if kind else 1):
                continue
            drawn_us, beyond_us = _draw(found, beyond_us, rng)
            if drawn_us is not None:
                return drawn_us
        return 2 * beyond_us or UNSEEN_US


def resampled(worked: Sequence[Worked], seed: int) -> list[Worked]:
    """Return as many jobs, drawn with replacement.

    What is learned from them is not certain, and so it differs by the seed.

    Source: Efron, Bootstrap methods, 1979.
    """
    rng = Rng(seed, "worked")
    return [worked[rng.below(len(worked))] for _ in worked]


def _kinds(user: UserName, model: str, gpus: int) -> Sequence[_Kind]:
    """Return the kinds that a job is of, the narrowest first."""
    wider: Sequence[_Kind] = ((user, gpus), (gpus,), ())
    return ((user, model, gpus), *wider) if model else wider


def _draw(found: Sequence[tuple[int, bool]], above_us: int, rng: Rng) -> tuple[int | None, int]:
    """Draw a work above another one.

    Args:
        found: works, sorted, and whether each was cut off there.
        above_us: the least that is known.
        rng: draws.
    Returns:
        the work, None where it is longer than all; and the most that is known to be exceeded.
    """
    first = bisect_right(found, (above_us, True))
    while True:
        if first == len(found):
            return None, max(above_us, found[-1][0]) if found else above_us
        place = first + rng.below(len(found) - first)
        work_us, is_cut = found[place]
        if not is_cut:
            return work_us, work_us
        first, above_us = place + 1, work_us
