"""Rounds that end with the last gang still at work in them (as in Gavel's simulator).

A round begins when the one before ends. Every gang works in it for one lease at most, in whole
steps if so configured, and stops; when the last one has stopped, the round is over, and plans are
made. Whole steps are dealt out to the GPUs of a gang: where one of them would have none to do, the
round takes its time and gets nothing done. Jobs that share GPUs are one gang: one that is done
stays until its partners stop as well, none gets on where one has too few steps, and their speed is
another one from the next round on only. While nobody runs, whatever happens next ends the round.
"""

from collections.abc import Iterator

from shunter.backends.simulated.lease import Lease, StepRate
from shunter.backends.simulated.work import Run, Task, Work
from shunter.events.values import JobId

_Known = tuple[Run, StepRate, int, int, tuple[int, int] | None]


class GangRounds:
    """The current round: since when, and what each gang does in it."""

    __slots__ = (
        "_began_us",
        "_counted",
        "_is_idle",
        "_last_us",
        "_lease",
        "_stretches",
        "_work",
    )

    def __init__(self, work: Work, lease: Lease) -> None:
        self._work = work
        self._lease = lease
        self._began_us = 0
        self._is_idle = True
        self._last_us: int | None = None  # -1: nobody stops; None: not known
        self._counted = 0
        self._stretches: dict[JobId, _Known] = {}

    def launched(self) -> None:
        """Note that somebody runs in this round."""
        self._is_idle = False
        self._last_us = None

    def end_us(self, now_us: int) -> int | None:
        """Return when the round is over; None while only the next happening can tell."""
        runs = self._work.runs
        if self._last_us is None or self._counted != len(runs):
            stops_us = [
                stretch[0]
                for job_id, task, run in self._gangs()
                if (stretch := self._stretch(job_id, task, run)) is not None
            ]
            self._counted, self._last_us = len(runs), max(stops_us, default=-1)
        if self._last_us >= 0:
            return max(now_us, self._last_us)
        return None if self._is_idle or runs else now_us

    def finish_us(self, job_id: JobId) -> int | None:
        """Return when a gang will have done all its work, if that is in this round."""
        runs, tasks = self._work.runs, self._work.tasks
        task, run = tasks[job_id], runs[job_id]
        stretch = self._stretch(job_id, task, run)
        if stretch is None or stretch[1] != task.left or self._fails(job_id, task, run):
            return None
        stops_us = stretch[0]
        for other in self._work.partners(job_id, run.allocation):
            beside = self._stretch(other, tasks[other], runs[other])
            if beside is not None:
                stops_us = max(stops_us, beside[0])
        return stops_us

    def next_round(self, now_us: int) -> None:
        """Credit what each gang did; begin the next round with those that stay."""
        in_steps = [gang for gang in self._gangs() if not gang[2].step_rate.is_continuous]
        done = [self._done_in_round(*gang) for gang in in_steps]
        for (_, task, run), steps in zip(in_steps, done, strict=True):
            self._work.save(task, run, now_us)
            task.left -= steps
            run.works_from_us = max(now_us, run.works_from_us)
        self._began_us = now_us
        self._is_idle = not self._work.runs
        self._stretches.clear()
        self._last_us = None

    def _stretch(self, job_id: JobId, task: Task, run: Run) -> tuple[int, int] | None:
        """Return when a gang stops in this round, and the units it will have done.

        None: it will not get anything done in any lease. It is asked for many times a round, and
        is the same as long as the attempt, its step_rate and its work are.
        """
        known = self._stretches.get(job_id)
        if known is not None:
            of, step_rate, from_us, left, stretch = known
            if (
                of is run
                and step_rate is run.step_rate
                and from_us == run.works_from_us
                and left == task.left
            ):
                return stretch
        stretch = None if self._is_stuck(task, run) else self._worked_out(task, run)
        self._stretches[job_id] = run, run.step_rate, run.works_from_us, task.left, stretch
        return stretch

    def _worked_out(self, task: Task, run: Run) -> tuple[int, int]:
        """Return when a gang stops in this round, and the units it will have done.

        Continuous work goes on from round to round; then both count from the attempt's begin.
        """
        from_us, step_rate = run.works_from_us, run.step_rate
        lease_end_us = self._began_us + self._lease.round_us
        most = step_rate.done_in(max(0, lease_end_us - from_us))
        if from_us > lease_end_us:
            return lease_end_us, 0
        if task.left <= most:
            return from_us + (step_rate.time_for(task.left) or 0), task.left
        if step_rate.is_continuous:
            return lease_end_us, most
        return from_us + (step_rate.time_for(most) or 0), most

    def _done_in_round(self, job_id: JobId, task: Task, run: Run) -> int:
        """Return the steps that count for a gang when the round is over."""
        stretch = self._stretch(job_id, task, run)
        return 0 if stretch is None or self._fails(job_id, task, run) else stretch[1]

    def _fails(self, job_id: JobId, task: Task, run: Run) -> bool:
        """Say whether a gang, or one on its GPUs, has fewer steps to do than GPUs."""
        runs, tasks = self._work.runs, self._work.tasks
        if self._has_too_few(job_id, task, run):
            return True
        beside = self._work.partners(job_id, run.allocation)
        return any(self._has_too_few(other, tasks[other], runs[other]) for other in beside)

    def _has_too_few(self, job_id: JobId, task: Task, run: Run) -> bool:
        stretch = self._stretch(job_id, task, run)
        return (
            stretch is not None
            and not run.step_rate.is_continuous
            and stretch[1] < run.allocation.gpus
        )

    def _is_stuck(self, task: Task, run: Run) -> bool:
        """Say whether a gang will not get anything done in any lease."""
        if run.step_rate.speed <= 0:
            return task.left > 0
        in_steps = not run.step_rate.is_continuous
        return in_steps and task.left > 0 and not run.step_rate.done_in(self._lease.round_us)

    def _gangs(self) -> Iterator[tuple[JobId, Task, Run]]:
        tasks = self._work.tasks
        for job_id, run in self._work.runs.items():
            yield job_id, tasks[job_id], run
