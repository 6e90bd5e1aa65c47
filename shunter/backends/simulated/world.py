"""What goes on in the simulated cluster: who runs where, and what comes of orders.

It keeps what is foreseen on an agenda; the backend lets time pass over it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from shunter.backends.simulated.agenda import Agenda
from shunter.backends.simulated.costs import Costs
from shunter.backends.simulated.gang_rounds import GangRounds
from shunter.backends.simulated.lease import EndSeen, Lease, RoundEnds
from shunter.backends.simulated.samples import Sampler, Samples
from shunter.backends.simulated.turning.slicing import Slicing
from shunter.backends.simulated.turning.turns import Turns
from shunter.backends.simulated.work import KILLED, LOSING, Run, Work
from shunter.core.interfaces import (
    AttemptExited,
    CancelJob,
    Continue,
    Effect,
    Fence,
    Launch,
    Migrate,
    Reshape,
    Resume,
    ShareTurns,
    Stop,
    Suspend,
    Terminate,
    Weigh,
)
from shunter.core.speeds.speed_model import SpeedModel
from shunter.events.facts.execution import (
    AttemptStarted,
    GpusReleased,
    JobContinued,
    JobStopped,
    JobSuspended,
    SpeedChanged,
)
from shunter.events.values.allocation import Sharing
from shunter.events.values.ids import JobId


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
            started = AttemptStarted(run.began_us, job_id, attempt, "", moved_from, speed)
            self.enter(run.began_us, job_id, started)
        if self.rounds is not None:
            self.rounds.launched()
        if self.turns is not None and self.turns.launched(job_id, run):
            return  # it slows nobody down before its first turn
        if self.work.gpu_tenants is not None:
            self.changed_hands(job_id, run, now_us)
        self.works_again(job_id, run, run.began_us)

    def leave(self, order: Suspend | Migrate, now_us: int) -> None:
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
            suspended = JobSuspended(now_us, job_id, attempt, None, left.lost_us)
            self.enter(now_us, job_id, suspended)
            self.enter(left.free_us, job_id, GpusReleased(left.free_us, job_id, attempt))
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
            self.enter(now_us, job_id, JobStopped(now_us, job_id, run.attempt))
            return
        if run.is_stopped:
            return
        self.work.stop(job_id, now_us)
        self.changed_hands(job_id, run, now_us)
        at_us = max(now_us, run.began_us)
        self.enter(at_us, job_id, JobStopped(at_us, job_id, run.attempt))

    def go_on(self, order: Continue, now_us: int) -> None:
        """Let a stopped attempt work again."""
        job_id, run = order.job_id, self.work.runs.get(order.job_id)
        if run is None or run.attempt != order.attempt or not run.is_stopped:
            return
        if self.turns is not None and run.allocation.sharing is Sharing.sliced:
            if self.turns.continued(job_id, run, now_us):
                self.enter(now_us, job_id, JobContinued(now_us, job_id, run.attempt))
            return
        anew = self.work.go_on(job_id, now_us)
        at_us, speed = anew.works_from_us, anew.step_rate.speed
        self.enter(at_us, job_id, JobContinued(at_us, job_id, run.attempt))
        if speed != 1.0:  # what the scheduler takes for granted
            self.enter(at_us, job_id, SpeedChanged(at_us, job_id, run.attempt, speed))
        self.changed_hands(job_id, anew, now_us)
        self.works_again(job_id, anew, at_us)

    def reshape(self, order: Reshape, now_us: int) -> None:
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
                changed = SpeedChanged(now_us, job_id, run.attempt, run.step_rate.speed)
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
    Suspend: World.leave,
    Migrate: World.leave,
    Reshape: World.reshape,
    Weigh: World.weigh,
    ShareTurns: World.share_turns,
    Terminate: World.terminate,
    Stop: World.stop,
    Continue: World.go_on,
    Fence: World.fence,
}
