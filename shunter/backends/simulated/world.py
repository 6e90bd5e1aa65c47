"""What goes on in the simulated cluster: who runs where, and what comes of orders.

`World` keeps what is foreseen on an `Agenda`; the backend lets time pass. In this order: samples of
jobs, the agenda, rounds that end with their last gang, the world.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from math import cos, exp, log, pi, sqrt
from typing import Any, Final

from shunter.backends.simulated.lease import EndSeen, Lease, RoundEnds, StepRate
from shunter.backends.simulated.turns import Ready, Slicing, Turns
from shunter.backends.simulated.work import KILLED, LOSING, Costs, Run, Task, Work
from shunter.core import (
    NEVER_US,
    AttemptExited,
    CancelJob,
    Continue,
    Effect,
    Fence,
    Launch,
    Migrate,
    RandomStream,
    ReshapeAttempt,
    Resume,
    ShareTurns,
    Stop,
    SuspendAttempt,
    Terminate,
    Weigh,
)
from shunter.core.speeds import FactorTable, ModelFactors, SpeedModel
from shunter.events import JobId, Sharing, fact, facts, replace

# What is measured of running jobs. A mini-batch is its true time times exp(noise x z), z a standard
# normal number by Box and Muller (Annals of Mathematical Statistics 29(2), 1958) from a stream of
# the attempt and the instant alone.


@fact
class SampleDue:
    """A sample of an attempt that is still to come, unless it is stopped before."""

    attempt: int
    stops: int


@fact
class Samples:
    """How often jobs are measured (0: never), and how inexactly.

    `noise` is the standard deviation of the logarithm of a measured time over the true one.
    """

    every_us: int = 0
    noise: float = 0.0
    seed: int = 0

    def taken(
        self,
        at_us: int,
        job_id: JobId,
        run: Run,
        left: int,
        batch_s: float,
        factors: ModelFactors | None,
    ) -> facts.ProfileSampled:
        """Return what is measured of a job now; steps, where it counts them.

        Args:
            at_us: the instant.
            job_id: the job.
            run: its attempt.
            left: the units that it has left, of those of its step rate.
            batch_s: the time of a mini-batch, in seconds.
            factors: what is known of its use of GPUs, if anything is.
        """
        used = None if factors is None else factors.gpu_utilisation
        memory_mb = None if factors is None else factors.gpu_memory_mb
        units, steps = run.step_rate.units, run.task.spec.total_steps
        done = None if steps is None else steps * (units - left) // units if units else steps
        if self.noise:
            batch_s *= exp(self.noise * _normal(RandomStream(self.seed, "samples", job_id, at_us)))
        return facts.ProfileSampled(at_us, job_id, run.attempt, done, batch_s, used, memory_mb)


class Sampler:
    """Measures the attempts of a simulated world at a steady pace.

    `enter` foresees something of a job: (instant, job, what).
    """

    __slots__ = ("_enter", "_factors", "_samples", "_work")

    def __init__(
        self,
        samples: Samples,
        work: Work,
        enter: Callable[[int, JobId, object], None],
        factors: FactorTable | None,
    ) -> None:
        self._factors = factors
        self._samples = samples
        self._work = work
        self._enter = enter

    def measured(self, job_id: JobId, at_us: int) -> list[facts.ProfileSampled]:
        """Return what is measured of an attempt now; foresee its next sample."""
        work, run = self._work, self._work.runs[job_id]
        batch_s = work.batch_s(job_id, run)
        self.foresee(job_id, run, at_us)
        if batch_s is None:
            return []
        left, table = work.left(run, at_us), self._factors
        factors = None if table is None else table.of(run.task.spec.model)
        return [self._samples.taken(at_us, job_id, run, left, batch_s, factors)]

    def foresee(self, job_id: JobId, run: Run, at_us: int) -> None:
        """Foresee the next sample of an attempt that will end and is measured."""
        every_us = self._samples.every_us
        if every_us and run.end_us is not None and self._work.batch_s(job_id, run) is not None:
            self._enter(at_us + every_us, job_id, SampleDue(run.attempt, run.stops))


def _normal(rng: RandomStream) -> float:
    """Return a number of the standard normal distribution."""
    return sqrt(-2.0 * log(1.0 - rng.random())) * cos(2.0 * pi * rng.random())


NO_SAMPLES: Final = Samples()


_OF_ONE_ATTEMPT = (
    facts.AttemptStarted,
    facts.SpeedChanged,
    facts.JobStopped,
    facts.JobContinued,
    Ready,
    facts.TurnStarted,
    facts.TurnEnded,
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


def at_its_speed(started: facts.AttemptStarted, runs: dict[JobId, Run]) -> facts.AttemptStarted:
    """Return the start of an attempt, told now, with the speed it has by now."""
    run = runs[started.job_id]
    run.told = True
    speed = run.step_rate.speed
    return started if started.speed == speed else replace(started, speed=speed)


# Rounds that end with the last gang still at work in them (as in Gavel's simulator).
#
# Every gang works for one lease at most, in whole steps if so configured. Steps are divided among
# the GPUs of a gang: where one would have none, the round gets nothing done. Jobs that share GPUs
# are one gang, and one that is done stays until its partners stop. If nobody runs, the next event
# ends the round.

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


class World:
    """The jobs of a simulated cluster, and all that is foreseen of them."""

    __slots__ = (
        "_lease",
        "_sees_at_once",
        "agenda",
        "instant",
        "leaving",
        "notice_us",
        "rounds",
        "sampler",
        "staying",
        "turns",
        "work",
    )

    def __init__(
        self,
        *,
        costs: Costs,
        lease: Lease,
        speeds: SpeedModel | None,
        samples: Samples,
        retries: bool,
        slicing: Slicing,
        loses: bool,
    ) -> None:
        is_plain = costs.are_none and speeds is None and lease.is_exact
        self.instant = is_plain and not loses and not slicing.quantum_us
        self._lease = lease
        self._sees_at_once = lease.end_seen is EndSeen.at_once
        self.work = Work(costs, lease, speeds, is_sampled=samples.every_us > 0, retries=retries)
        by_gangs = lease.round_ends is RoundEnds.last_gang
        self.rounds = GangRounds(self.work, lease) if by_gangs else None
        self.agenda = Agenda(self.work.runs)
        self.leaving = 0
        self.staying: frozenset[JobId] = frozenset()
        self.notice_us = 0
        factors = None if speeds is None else speeds.factors
        self.sampler = Sampler(samples, self.work, self.enter, factors)
        self.turns = Turns(slicing, self.work, self, factors) if slicing.quantum_us else None

    def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Carry orders out."""
        for effect in effects:
            _PERFORM[type(effect)](self, effect, now_us)

    def launch(self, order: Launch | Resume, now_us: int) -> None:
        """Begin an attempt, unless it or a later one has begun, or the job has gone."""
        job_id, attempt = order.job_id, order.attempt
        task = self.work.tasks.get(job_id)
        if task is None or attempt <= task.attempt:
            return
        run = self.work.begin(task, order, now_us)
        if not self.instant:
            moved_from, task.moves_from = task.moves_from, ()
            speed = run.step_rate.speed
            started = facts.AttemptStarted(run.began_us, job_id, attempt, "", moved_from, speed)
            self.enter(run.began_us, job_id, started)
        if self.rounds is not None:
            self.rounds.launched()
        if self.turns is not None and self.turns.launched(job_id, run):
            return  # it slows nobody down before its first turn
        if self.work.gpu_tenants is not None:
            self.changed_hands(job_id, run, now_us)
        self.works_again(job_id, run, run.began_us)

    def leave(self, order: SuspendAttempt | Migrate, now_us: int) -> None:
        """Stop an attempt with what its mode saves; one that had no work left just ends.

        It works on for `notice_us` until it has seen that it is to leave. One that ends by then
        does so, and those that are `staying` go on to their ends in any case.
        """
        job_id, attempt = order.job_id, order.attempt
        run = self.work.runs.get(job_id)
        if run is None or run.attempt != attempt or job_id in self.staying:
            return
        until_us = now_us + self._notice_us(run, now_us)
        if until_us > now_us and run.end_us is not None and run.end_us <= until_us:
            return
        left = self.work.leave(job_id, until_us, moves=type(order) is Migrate)
        self.went(job_id, run, now_us)
        if left.is_done:
            if run.task.exit_code == KILLED:
                self.enter(now_us, job_id, CancelJob(now_us, job_id, run.task.spec.user))
            self.enter(now_us, job_id, self.exited(job_id, run, now_us))
            self.work.forget(job_id, run, now_us)
        elif not self.instant:
            suspended = facts.JobSuspended(now_us, job_id, attempt, None, left.lost_us)
            self.enter(now_us, job_id, suspended)
            self.enter(left.free_us, job_id, facts.GpusReleased(left.free_us, job_id, attempt))
            self.leaving += 1

    def _notice_us(self, run: Run, now_us: int) -> int:
        """Return how long an attempt works on before it sees that it is to leave.

        Who does not work sees it at once, and who saves nothing is ended without being asked.
        """
        is_at_work = not run.is_stopped and run.began_us <= now_us
        is_asked = run.task.spec.suspend_mode not in LOSING
        return self.notice_us if is_at_work and is_asked else 0

    def terminate(self, order: Terminate, now_us: int) -> None:
        """End an attempt at once; forget a job that has none."""
        job_id = order.job_id
        run = self.work.runs.get(job_id)
        if run is None:
            self.work.tasks.pop(job_id, None)
        elif run.attempt == order.attempt:
            self.work.end(job_id)
            self.went(job_id, run, now_us)
            exited = AttemptExited(now_us, job_id, order.attempt, KILLED, released=True)
            self.enter(now_us, job_id, exited)
            del self.work.tasks[job_id]

    def stop(self, order: Stop, now_us: int) -> None:
        """Let an attempt stand still on its GPUs, unless it has just done all its work."""
        job_id, run = order.job_id, self.work.runs.get(order.job_id)
        if run is None or run.attempt != order.attempt or run.is_over(now_us):
            return
        if self.turns is not None and self.turns.stopped(job_id, run, now_us):
            self.enter(now_us, job_id, facts.JobStopped(now_us, job_id, run.attempt))
            return
        if run.is_stopped:
            return
        self.work.stop(job_id, now_us)
        self.changed_hands(job_id, run, now_us)
        at_us = max(now_us, run.began_us)
        self.enter(at_us, job_id, facts.JobStopped(at_us, job_id, run.attempt))

    def go_on(self, order: Continue, now_us: int) -> None:
        """Let a stopped attempt work again."""
        job_id, run = order.job_id, self.work.runs.get(order.job_id)
        if run is None or run.attempt != order.attempt or not run.is_stopped:
            return
        if self.turns is not None and run.allocation.sharing is Sharing.sliced:
            if self.turns.continued(job_id, run, now_us):
                self.enter(now_us, job_id, facts.JobContinued(now_us, job_id, run.attempt))
            return
        anew = self.work.go_on(job_id, now_us)
        at_us, speed = anew.works_from_us, anew.step_rate.speed
        self.enter(at_us, job_id, facts.JobContinued(at_us, job_id, run.attempt))
        if speed != 1.0:  # what the scheduler takes for granted
            self.enter(at_us, job_id, facts.SpeedChanged(at_us, job_id, run.attempt, speed))
        self.changed_hands(job_id, anew, now_us)
        self.works_again(job_id, anew, at_us)

    def reshape(self, order: ReshapeAttempt, now_us: int) -> None:
        """Let an attempt go at the speed of its new shares; it runs on meanwhile."""
        turns, run = self.turns, self.work.runs.get(order.job_id)
        if turns is not None and run is not None and run.attempt == order.attempt:
            is_rehomed = turns.rehomed(order.job_id, order.allocation, now_us)
            if is_rehomed:
                run.task.last = order.allocation
                return
        if self.work.reshape(order) and self.work.gpu_tenants is not None:
            self.update_step_rates([order.job_id], now_us)

    def weigh(self, order: Weigh, now_us: int) -> None:
        """Let an attempt have another part of the turns that it takes."""
        run = self.work.runs.get(order.job_id)
        if run is None or run.attempt != order.attempt:
            return
        run.task.weight = order.weight
        if self.turns is not None:
            self.turns.weighed(order.job_id, run, now_us)

    def share_turns(self, order: ShareTurns, now_us: int) -> None:
        """Let an attempt have its turns together with others, or alone again."""
        run = self.work.runs.get(order.job_id)
        if self.turns is not None and run is not None and run.attempt == order.attempt:
            self.turns.packed(order.job_id, run, order.beside, now_us)

    def fence(self, order: Fence, now_us: int) -> None:
        """Nothing can run here that was not told to."""

    def enter(self, at_us: int, job_id: JobId, what: Any, place: int | None = None) -> None:
        """Foresee something of a job, maybe at another place of an instant than its own."""
        ordinal = self.work.tasks[job_id].ordinal if place is None else place
        self.agenda.enter(at_us, ordinal, job_id, what)

    def works_again(self, job_id: JobId, run: Run, at_us: int) -> None:
        """Foresee the end and the next sample of a job that works from an instant on."""
        self.foresee_end(job_id, run)
        self.sampler.foresee(job_id, run, at_us)

    def went(self, job_id: JobId, run: Run, now_us: int) -> None:
        """Let others have what a job that went leaves: speed, and its turns."""
        self.changed_hands(job_id, run, now_us)
        if self.turns is not None:
            self.turns.left(job_id, run, now_us)

    def changed_hands(self, job_id: JobId, run: Run, now_us: int) -> None:
        """Let those whom a job slows down go at the speed its coming or going leaves."""
        if self.work.gpu_tenants is not None:
            self.update_step_rates(self.work.slowed_by(job_id, run.allocation), now_us)

    def update_step_rates(self, job_ids: Sequence[JobId], now_us: int) -> None:
        """Let jobs go at the speeds they have beside their partners of now."""
        work = self.work
        before = [work.runs[job_id].step_rate.speed for job_id in job_ids]
        anew = [work.paced_anew(job_id, now_us) for job_id in job_ids]
        for job_id, run, speed in zip(job_ids, anew, before, strict=True):
            self.foresee_end(job_id, run)
            if run.told and run.step_rate.speed != speed:
                changed = facts.SpeedChanged(now_us, job_id, run.attempt, run.step_rate.speed)
                self.enter(now_us, job_id, changed)

    def end_us(self, run: Run) -> int | None:
        """Return when an attempt that stays as it is has done all its work; None: never."""
        return self._lease.end_us(run.works_from_us, run.task.left, run.step_rate)

    def foresee_end(self, job_id: JobId, run: Run) -> None:
        """Enter the end of an attempt where it will be seen, if that is known."""
        if self.rounds is not None:
            run.end_us = self.rounds.finish_us(job_id)
        end_us, task = run.end_us, run.task
        if end_us is None:
            return
        if not self._sees_at_once and task.exit_code != KILLED:
            if self.rounds is not None:
                return  # the end of the round will tell
            end_us = self._lease.seen_us(end_us)
        self.agenda.enter(end_us, task.ordinal, job_id, run)

    def exited(self, job_id: JobId, run: Run, at_us: int) -> AttemptExited:
        """Return what is told of the end of an attempt."""
        ended_us = None if run.end_us == at_us else self.work.really_ended_us(run, at_us)
        code = run.task.exit_code
        return AttemptExited(at_us, job_id, run.attempt, code, released=True, ended_us=ended_us)


_PERFORM: dict[type[Effect], Callable[[World, Any, int], None]] = {
    Launch: World.launch,
    Resume: World.launch,
    SuspendAttempt: World.leave,
    Migrate: World.leave,
    ReshapeAttempt: World.reshape,
    Weigh: World.weigh,
    ShareTurns: World.share_turns,
    Terminate: World.terminate,
    Stop: World.stop,
    Continue: World.go_on,
    Fence: World.fence,
}
