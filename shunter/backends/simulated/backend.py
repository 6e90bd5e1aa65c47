"""The simulated cluster: jobs that run for as long as their trace says, on a virtual clock.

Time passes in `observe`, which jumps to the next instant at which anything happens. Nothing here
awaits anything, so a round of the loop costs what the core costs. At one instant things happen in
this order: ends, failures, node changes, arrivals in trace order, the end of a round. What costs,
leases and failures mean to the microsecond stands in docs/reference/simulation.md.
"""

from collections.abc import Callable, Sequence
from heapq import heappop
from typing import Any

from shunter.backends.simulated.agenda import Agenda, at_its_speed, is_void
from shunter.backends.simulated.costs import NO_COSTS, Costs
from shunter.backends.simulated.failures import NO_FAILURES, Failures, NodeChanges
from shunter.backends.simulated.gang_rounds import GangRounds
from shunter.backends.simulated.lease import PLAIN_LEASE, EndSeen, Lease, RoundEnds
from shunter.backends.simulated.samples import NO_SAMPLES, SampleDue, Samples
from shunter.backends.simulated.work import KILLED, LOSING, Arrival, Run, Work
from shunter.core.effects import (
    Continue,
    Effect,
    Fence,
    Launch,
    Migrate,
    Resume,
    Stop,
    Suspend,
    Terminate,
)
from shunter.core.intake.inputs import (
    AttemptExited,
    CancelJob,
    Input,
    NothingComes,
    RoundEnded,
    SubmitJob,
    WorldEnded,
)
from shunter.core.progress import NEVER_US
from shunter.core.speed_model import SpeedModel
from shunter.events.facts.cluster import NodeLost, NodeReachable
from shunter.events.facts.execution import (
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    JobContinued,
    JobStopped,
    JobSuspended,
    SpeedChanged,
)
from shunter.events.values.ids import JobId


class SimulatedBackend:
    """Runs a trace on a virtual clock, behind the port that live backends use."""

    __slots__ = (
        "_agenda",
        "_arrivals",
        "_arrives_us",
        "_changes",
        "_instant",
        "_lease",
        "_leaving",
        "_next",
        "_now_us",
        "_rounds",
        "_samples",
        "_sees_at_once",
        "_stale",
        "_work",
    )

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        *,
        costs: Costs = NO_COSTS,
        lease: Lease = PLAIN_LEASE,
        failures: Failures = NO_FAILURES,
        speeds: SpeedModel | None = None,
        samples: Samples = NO_SAMPLES,
        retries: bool = False,
    ) -> None:
        loses = any(job.spec.suspend_mode in LOSING for job in arrivals)
        self._instant = costs.are_none and speeds is None and lease.is_exact and not loses
        self._arrivals = arrivals
        self._next = 0
        self._arrives_us = arrivals[0].submit_us if arrivals else NEVER_US
        self._now_us = 0
        self._lease = lease
        self._sees_at_once = lease.end_seen is EndSeen.at_once
        self._work = Work(costs, lease, speeds, is_sampled=samples.every_us > 0, retries=retries)
        by_gangs = lease.round_ends is RoundEnds.last_gang
        self._rounds = GangRounds(self._work, lease) if by_gangs else None
        self._agenda = Agenda(self._work.runs)
        self._leaving = 0
        self._changes = NodeChanges(failures)
        self._stale: dict[JobId, None] = {}
        self._samples = samples

    @property
    def instant(self) -> bool:
        """Whether nothing takes any time here, and all work is time worked."""
        return self._instant

    @property
    def arrives_us(self) -> int:
        """The instant of the next arrival; `NEVER_US` if there is none."""
        return self._arrives_us

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Carry orders out; outcomes that take time come back through `observe`."""
        for effect in effects:
            _PERFORM[type(effect)](self, effect, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Jump to the next instant; return what happens up to the round's end."""
        next_us = self._next_us()
        if next_us == NEVER_US and until_us is None:
            return self._now_us, (WorldEnded(self._now_us),)
        if until_us is not None and next_us > until_us:
            self._now_us = until_us
            return until_us, (NothingComes(until_us),) if next_us == NEVER_US else ()
        last_us = next_us
        if not self._leaving:
            last_us = self._gather_upto(next_us, gather_us)
            if until_us is not None and until_us < last_us:
                last_us = until_us
        self._now_us = last_us
        return last_us, self._inputs_upto(last_us)

    def due(self, at_us: int) -> list[JobId] | None:
        """Return whose ends are foreseen at an instant; None: something else comes first."""
        return self._agenda.ends_at(at_us)

    def end(self, job_id: JobId, at_us: int) -> AttemptExited | None:
        """End a job, whether it runs or waits; None: it has gone."""
        task = self._work.tasks.pop(job_id, None)
        if task is None:
            return None
        self._work.runs.pop(job_id, None)
        return AttemptExited(at_us, job_id, task.attempt, task.exit_code, released=True)

    def launch(self, order: Launch | Resume, now_us: int) -> None:
        """Begin an attempt, unless it or a later one has begun, or the job has gone."""
        job_id, attempt = order.job_id, order.attempt
        task = self._work.tasks.get(job_id)
        if task is None or attempt <= task.attempt:
            return
        run = self._work.begin(task, order, now_us)
        if not self._instant:
            moved_from, task.moves_from = task.moves_from, ()
            speed = run.step_rate.speed
            started = AttemptStarted(run.began_us, job_id, attempt, "", moved_from, speed)
            self._enter(run.began_us, job_id, started)
        if self._rounds is not None:
            self._rounds.launched()
        if self._work.gpu_tenants is not None:
            self._pace_partners(job_id, run, now_us)
        self._foresee_end(job_id, run)
        self._sample_after(job_id, run, run.began_us)

    def leave(self, order: Suspend | Migrate, now_us: int) -> None:
        """Stop an attempt with what its mode saves; one that had no work left just ends."""
        job_id, attempt = order.job_id, order.attempt
        run = self._work.runs.get(job_id)
        if run is None or run.attempt != attempt:
            return
        left = self._work.leave(job_id, now_us, moves=type(order) is Migrate)
        self._pace_partners(job_id, run, now_us)
        if left.is_done:
            if run.task.exit_code == KILLED:
                self._enter(now_us, job_id, CancelJob(now_us, job_id, run.task.spec.user))
            self._enter(now_us, job_id, self._exited(job_id, run, now_us))
            self._work.forget(job_id, run, now_us)
        elif not self._instant:
            suspended = JobSuspended(now_us, job_id, attempt, None, left.lost_us)
            self._enter(now_us, job_id, suspended)
            self._enter(left.free_us, job_id, GpusReleased(left.free_us, job_id, attempt))
            self._leaving += 1

    def terminate(self, order: Terminate, now_us: int) -> None:
        """End an attempt at once; forget a job that has none."""
        job_id = order.job_id
        run = self._work.runs.get(job_id)
        if run is None:
            self._work.tasks.pop(job_id, None)
        elif run.attempt == order.attempt:
            self._work.end(job_id)
            self._pace_partners(job_id, run, now_us)
            exited = AttemptExited(now_us, job_id, order.attempt, KILLED, released=True)
            self._enter(now_us, job_id, exited)
            del self._work.tasks[job_id]

    def stop(self, order: Stop, now_us: int) -> None:
        """Let an attempt stand still on its GPUs, unless it has just done all its work."""
        job_id, run = order.job_id, self._work.runs.get(order.job_id)
        if run is None or run.attempt != order.attempt or run.is_stopped or run.is_over(now_us):
            return
        self._work.stop(job_id, now_us)
        self._pace_partners(job_id, run, now_us)
        at_us = max(now_us, run.began_us)
        self._enter(at_us, job_id, JobStopped(at_us, job_id, run.attempt))

    def go_on(self, order: Continue, now_us: int) -> None:
        """Let a stopped attempt work again."""
        job_id, run = order.job_id, self._work.runs.get(order.job_id)
        if run is None or run.attempt != order.attempt or not run.is_stopped:
            return
        anew = self._work.go_on(job_id, now_us)
        at_us, speed = anew.works_from_us, anew.step_rate.speed
        self._enter(at_us, job_id, JobContinued(at_us, job_id, run.attempt))
        if speed != 1.0:  # what the scheduler takes for granted
            self._enter(at_us, job_id, SpeedChanged(at_us, job_id, run.attempt, speed))
        self._pace_partners(job_id, anew, now_us)
        self._foresee_end(job_id, anew)
        self._sample_after(job_id, anew, at_us)

    def fence(self, order: Fence, now_us: int) -> None:
        """Nothing can run here that was not told to."""

    def _enter(self, at_us: int, job_id: JobId, what: Any) -> None:
        self._agenda.enter(at_us, self._work.tasks[job_id].ordinal, job_id, what)

    def _pace_partners(self, job_id: JobId, run: Run, now_us: int) -> None:
        """Let those who share GPUs with a job go at the speed its coming or going leaves."""
        if self._work.gpu_tenants is not None:
            self._update_step_rates(self._work.partners(job_id, run.allocation), now_us)

    def _update_step_rates(self, job_ids: Sequence[JobId], now_us: int) -> None:
        """Let jobs go at the speeds they have beside their partners of now."""
        work = self._work
        before = [work.runs[job_id].step_rate.speed for job_id in job_ids]
        anew = [work.paced_anew(job_id, now_us) for job_id in job_ids]
        for job_id, run, speed in zip(job_ids, anew, before, strict=True):
            self._foresee_end(job_id, run)
            if run.told and run.step_rate.speed != speed:
                changed = SpeedChanged(now_us, job_id, run.attempt, run.step_rate.speed)
                self._enter(now_us, job_id, changed)

    def _foresee_end(self, job_id: JobId, run: Run) -> None:
        """Enter the end of an attempt where it will be seen, if that is known."""
        if self._rounds is not None:
            run.end_us = self._rounds.finish_us(job_id)
        end_us, task = run.end_us, run.task
        if end_us is None:
            return
        if not self._sees_at_once and task.exit_code != KILLED:
            if self._rounds is not None:
                return  # the end of the round will tell
            end_us = self._lease.seen_us(end_us)
        self._agenda.enter(end_us, task.ordinal, job_id, run)

    def _next_us(self) -> int:
        """Return the next instant at which anything happens, passing over what is void."""
        next_us = self._agenda.next_us()
        if self._arrives_us < next_us:
            next_us = self._arrives_us
        if self._rounds is not None:
            round_us = self._rounds.end_us(self._now_us)
            if round_us is not None and round_us < next_us:
                next_us = round_us
        if self._changes.at_us < next_us and (next_us != NEVER_US or self._work.tasks):
            return self._changes.at_us
        return next_us

    def _gather_upto(self, next_us: int, gather_us: int) -> int:
        """Return up to when inputs may be handed over together."""
        if self._rounds is None:
            return -(-next_us // gather_us) * gather_us if gather_us else next_us
        round_us = self._rounds.end_us(self._now_us)
        return next_us if round_us is None else round_us

    def _inputs_upto(self, last_us: int) -> list[Input]:
        inputs: list[Input] = []
        agenda, runs = self._agenda.entries, self._work.runs
        while True:
            bound_us = min(last_us, self._arrives_us, self._changes.at_us)
            while agenda and agenda[0][0] <= bound_us:
                at_us, _, _, job_id, what = heappop(agenda)
                if type(what) is Run:
                    if runs.get(job_id) is what:
                        self._exit(job_id, what, at_us, inputs)
                elif is_void(job_id, what, runs):
                    continue
                elif type(what) is SampleDue:
                    self._sample(job_id, at_us, inputs)
                else:
                    self._leaving -= type(what) is GpusReleased
                    inputs.append(
                        at_its_speed(what, runs) if type(what) is AttemptStarted else what
                    )
            if self._changes.at_us == bound_us:
                self._change_node(inputs)
            elif self._arrives_us == bound_us:
                self._arrive(inputs)
            else:
                break
        if self._rounds is not None and self._is_round_over(self._rounds, last_us):
            self._end_round(self._rounds, last_us, inputs)
        return inputs

    def _is_round_over(self, rounds: GangRounds, now_us: int) -> bool:
        end_us = rounds.end_us(now_us)
        return not self._leaving if end_us is None else end_us <= now_us

    def _arrive(self, inputs: list[Input]) -> None:
        arrivals, place = self._arrivals, self._next
        job = arrivals[place]
        self._work.arrive(job, place)
        self._next = place = place + 1
        self._arrives_us = arrivals[place].submit_us if place < len(arrivals) else NEVER_US
        inputs.append(SubmitJob(job.submit_us, job.job_id, job.spec, job.duration_us))

    def _exit(self, job_id: JobId, run: Run, at_us: int, inputs: list[Input]) -> None:
        work = self._work
        work.forget(job_id, run, at_us)
        if work.gpu_tenants is None:
            del work.runs[job_id]
        else:
            work.end(job_id)
            self._left_behind(job_id, run, at_us)
        if run.task.exit_code == KILLED:
            inputs.append(CancelJob(at_us, job_id, run.task.spec.user))
        inputs.append(self._exited(job_id, run, at_us))

    def _sample(self, job_id: JobId, at_us: int, inputs: list[Input]) -> None:
        """Measure an attempt, and foresee its next sample."""
        work, run = self._work, self._work.runs[job_id]
        batch_s = work.batch_s(job_id, run)
        if batch_s is not None:
            left = work.left(run, at_us)
            inputs.append(self._samples.taken(at_us, job_id, run, left, batch_s))
        self._sample_after(job_id, run, at_us)

    def _sample_after(self, job_id: JobId, run: Run, at_us: int) -> None:
        """Foresee the next sample of an attempt that will end and is measured."""
        every_us = self._samples.every_us
        if every_us and run.end_us is not None and self._work.batch_s(job_id, run) is not None:
            self._enter(at_us + every_us, job_id, SampleDue(run.attempt, run.stops))

    def _left_behind(self, job_id: JobId, run: Run, at_us: int) -> None:
        """Speed up the partners of a job that has ended, from the next round of gangs on."""
        if self._rounds is None:
            self._pace_partners(job_id, run, at_us)
        else:
            self._stale.update(dict.fromkeys(self._work.partners(job_id, run.allocation)))

    def _exited(self, job_id: JobId, run: Run, at_us: int) -> AttemptExited:
        ended_us = None if run.end_us == at_us else self._work.really_ended_us(run, at_us)
        code = run.task.exit_code
        return AttemptExited(at_us, job_id, run.attempt, code, released=True, ended_us=ended_us)

    def _change_node(self, inputs: list[Input]) -> None:
        change = self._changes.take()
        at_us = change.at_us
        if not change.is_loss:
            inputs.append(NodeReachable(at_us, change.node))
            return
        inputs.append(NodeLost(at_us, change.node, change.cause))
        there = [name for name, run in self._work.runs.items() if change.node in run.nodes]
        for job_id in there:
            run = self._work.runs[job_id]
            if run.is_over(at_us):
                self._exit(job_id, run, at_us, inputs)
            else:
                lost_us = self._work.lose(job_id, at_us)
                self._pace_partners(job_id, run, at_us)
                inputs.append(AttemptLost(at_us, job_id, run.attempt, "node lost", lost_us))

    def _end_round(self, rounds: GangRounds, at_us: int, inputs: list[Input]) -> None:
        ended = [(name, run) for name, run in self._work.runs.items() if run.is_over(at_us)]
        for job_id, run in ended:
            self._exit(job_id, run, at_us, inputs)
        rounds.next_round(at_us)
        self._update_step_rates(
            [job_id for job_id in self._stale if job_id in self._work.runs], at_us
        )
        self._stale.clear()
        for job_id, run in self._work.runs.items():
            self._foresee_end(job_id, run)
        inputs.append(RoundEnded(at_us))


_PERFORM: dict[type[Effect], Callable[[SimulatedBackend, Any, int], None]] = {
    Launch: SimulatedBackend.launch,
    Resume: SimulatedBackend.launch,
    Suspend: SimulatedBackend.leave,
    Migrate: SimulatedBackend.leave,
    Terminate: SimulatedBackend.terminate,
    Stop: SimulatedBackend.stop,
    Continue: SimulatedBackend.go_on,
    Fence: SimulatedBackend.fence,
}
