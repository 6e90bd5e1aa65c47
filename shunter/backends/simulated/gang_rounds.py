"""Rounds that end with the last gang still at work in them (as in Gavel's simulator).

A round begins when the one before ends. Every gang works in it for one lease at most, in whole
steps if so configured, and stops; when the last one has stopped, the round is over, and plans are
made. Jobs that share GPUs are one gang: one that is done stays until its partners stop as well, and
their speed is another one from the next round on only. While nobody runs, whatever happens next
ends the round.
"""

from collections.abc import Iterator

from shunter.backends.simulated.lease import Lease
from shunter.backends.simulated.work import Run, Task, Work
from shunter.events.values.ids import JobId


class GangRounds:
    """The current round: since when, and what each gang does in it."""

    def __init__(self, work: Work, lease: Lease) -> None:
        self._work = work
        self._lease = lease
        self._began_us = 0
        self._is_idle = True

    def launched(self) -> None:
        """Note that somebody runs in this round."""
        self._is_idle = False

    def end_us(self, now_us: int) -> int | None:
        """Return when the round is over; None while only the next happening can tell."""
        stops_us = [
            self._stretch(task, run)[0]
            for task, run in self._gangs()
            if not self._is_stuck(task, run)
        ]
        if stops_us:
            return max(now_us, *stops_us)
        return None if self._is_idle or self._work.runs else now_us

    def finish_us(self, job_id: JobId) -> int | None:
        """Return when a gang will have done all its work, if that is in this round."""
        runs, tasks = self._work.runs, self._work.tasks
        task, run = tasks[job_id], runs[job_id]
        stops_us, done = self._stretch(task, run)
        if done != task.left:
            return None
        for other in self._work.partners(job_id, run.allocation):
            if not self._is_stuck(tasks[other], runs[other]):
                stops_us = max(stops_us, self._stretch(tasks[other], runs[other])[0])
        return stops_us

    def next_round(self, now_us: int) -> None:
        """Credit what each gang did; begin the next round with those that stay."""
        for task, run in self._gangs():
            if not run.pace.is_continuous:
                _, done = self._stretch(task, run)
                self._work.save(task, run, now_us)
                task.left -= done
                run.works_from_us = max(now_us, run.works_from_us)
        self._began_us = now_us
        self._is_idle = not self._work.runs

    def _stretch(self, task: Task, run: Run) -> tuple[int, int]:
        """Return when a gang stops in this round, and how many units it will have done.

        Continuous work goes on from round to round; then both count from the attempt's begin.
        """
        from_us, pace = run.works_from_us, run.pace
        lease_end_us = self._began_us + self._lease.round_us
        most = pace.done_in(max(0, lease_end_us - from_us))
        if from_us > lease_end_us:
            return lease_end_us, 0
        if task.left <= most:
            return from_us + (pace.time_for(task.left) or 0), task.left
        if pace.is_continuous:
            return lease_end_us, most
        return from_us + (pace.time_for(most) or 0), most

    def _is_stuck(self, task: Task, run: Run) -> bool:
        """Say whether a gang will not get anything done in any lease."""
        if run.pace.speed <= 0:
            return task.left > 0
        in_steps = not run.pace.is_continuous
        return in_steps and task.left > 0 and not run.pace.done_in(self._lease.round_us)

    def _gangs(self) -> Iterator[tuple[Task, Run]]:
        tasks = self._work.tasks
        for job_id, run in self._work.runs.items():
            yield tasks[job_id], run
