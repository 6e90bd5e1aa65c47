"""How far the work of each job was at any time of a run: for when it passed an amount, and shares.

Between two facts about a job its work grows in a straight line or not at all, so its course is a
few points. They are taken from the state after each fact.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import attrgetter
from typing import Any

from shunter.core import Job, Observers, View, time_for_us, worked_us
from shunter.events import KINDS, JobId

_OF_JOBS = tuple(kind for kind in KINDS.values() if "job_id" in kind.__annotations__)
_AT_US = attrgetter("at_us")


@dataclass(frozen=True, slots=True)
class Point:
    """The work done up to an instant, at base speed; the speed then, 0 at rest."""

    at_us: int
    done_us: int
    speed: float

    def done_at_us(self, at_us: int) -> int:
        """Return the work done at a later instant if nothing changes."""
        return self.done_us + worked_us(at_us - self.at_us, self.speed)


@dataclass(slots=True)
class WorkCurve:
    """The course of one job's work since its submission."""

    submitted_us: int
    points: list[Point] = field(default_factory=list)

    def done_us(self, at_us: int) -> int:
        """Return the work done at an instant, in microseconds at base speed."""
        before = bisect_right(self.points, at_us, key=_AT_US)
        return self.points[before - 1].done_at_us(at_us) if before else 0

    def passed_us(self, work_us: int) -> int | None:
        """Return when so much work was done; None if it never was."""
        for point, following in zip_longest(self.points, self.points[1:]):
            if point.done_us >= work_us:
                return point.at_us
            if following is not None and following.done_us < work_us:
                continue
            if point.speed > 0:
                return point.at_us + time_for_us(work_us - point.done_us, point.speed)
        return None


@dataclass(slots=True)
class WorkCurves:
    """Follows all jobs, each until it has done `enough_us` of work, if given."""

    enough_us: int | None = None
    curves: dict[JobId, WorkCurve] = field(default_factory=dict)

    def observers(self) -> Observers:
        """Return what it listens to."""
        return dict.fromkeys(_OF_JOBS, self._heard)

    def of(self, jobs: Sequence[JobId]) -> list[WorkCurve]:
        """Return the curves of some jobs."""
        return [self.curves[job_id] for job_id in jobs]

    def _heard(self, event: Any, view: View) -> None:
        job = view.jobs.get(event.job_id)
        if job is not None:
            self._note(job, event.at_us, is_over=False)
        elif view.departed is not None and view.departed.job_id == event.job_id:
            self._note(view.departed, event.at_us, is_over=True)
        for launched in view.launched:
            self._note(launched, event.at_us, is_over=False)

    def _note(self, job: Job, at_us: int, *, is_over: bool) -> None:
        curve = self.curves.get(job.job_id)
        if curve is None:
            curve = self.curves[job.job_id] = WorkCurve(job.submitted_us)
        points = curve.points
        if self.enough_us is not None and points and points[-1].done_us >= self.enough_us:
            return
        works = job.working_since_us is not None and not is_over
        since_us = max(at_us, job.working_since_us or 0) if works else at_us
        point = Point(since_us, job.done_us(since_us), job.speed if works else 0.0)
        if points and points[-1].speed == point.speed:
            return  # on the same line
        points.append(point)
