"""The simulated cluster: jobs that run for as long as their trace says, on a virtual clock.

Time passes in `observe`, which jumps to the next instant at which anything happens. Nothing here
awaits anything, so a round of the loop costs what the core costs. At one instant things happen in
this order: ends, failures, node changes, arrivals in trace order, the end of a round.
docs/reference/simulation.md defines costs, leases and failures to the microsecond.
"""

from collections.abc import Sequence
from heapq import heappop

from shunter.backends.simulated.failures import NO_FAILURES, Failures, NodeChanges, RecordedFailures
from shunter.backends.simulated.lease import PLAIN_LEASE, Lease
from shunter.backends.simulated.resuming import Resumed, resume_jobs
from shunter.backends.simulated.turns import NO_SLICING, Ready, Slicing, TurnDue
from shunter.backends.simulated.work import KILLED, LOSING, NO_COSTS, Arrival, Costs, Run
from shunter.backends.simulated.world import (
    NO_SAMPLES,
    GangRounds,
    SampleDue,
    Samples,
    World,
    at_its_speed,
    is_void,
)
from shunter.core import (
    NEVER_US,
    AttemptExited,
    CancelJob,
    Effect,
    Input,
    NothingComes,
    RoundEnded,
    SubmitJob,
    WorldEnded,
)
from shunter.core.speeds import SpeedModel
from shunter.events import JobId, JobSpec, facts


class SimulatedBackend:
    """Runs a trace on a virtual clock, behind the port that live backends use."""

    __slots__ = (
        "_agenda",
        "_arrivals",
        "_arrives_us",
        "_changes",
        "_first",
        "_next",
        "_now_us",
        "_rounds",
        "_stale",
        "_work",
        "_world",
    )

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        *,
        costs: Costs = NO_COSTS,
        lease: Lease = PLAIN_LEASE,
        failures: Failures | RecordedFailures = NO_FAILURES,
        speeds: SpeedModel | None = None,
        samples: Samples = NO_SAMPLES,
        retries: bool = False,
        slicing: Slicing = NO_SLICING,
    ) -> None:
        self._world = World(
            costs=costs,
            lease=lease,
            speeds=speeds,
            samples=samples,
            retries=retries,
            slicing=slicing,
            loses=any(job.spec.suspend_mode in LOSING for job in arrivals),
        )
        self._work, self._agenda = self._world.work, self._world.agenda
        self._rounds = self._world.rounds
        self._arrivals = arrivals
        self._next = self._first = 0
        self._arrives_us = arrivals[0].submit_us if arrivals else NEVER_US
        self._now_us = 0
        self._changes = NodeChanges(failures)
        self._stale: dict[JobId, None] = {}

    def resume(self, resumed: Resumed, costs: Costs, *, in_steps: bool) -> None:
        """Begin with the jobs of a state, at the instant it is.

        Args:
            resumed: the state, and the work of its jobs; arrivals and node changes come after it.
            costs: those of this cluster.
            in_steps: whether work counts in whole steps.
        """
        self._now_us, self._first = resumed.now_us, resumed.state.submitted
        self._world.instant = self._world.instant and resumed.instant
        while self._changes.at_us <= self._now_us:
            self._changes.take()
        resume_jobs(self._world, costs, resumed, in_steps=in_steps)

    def leaves_late(self, staying: frozenset[JobId], notice_us: int) -> None:
        """Have some jobs that are told to leave stay, and others work on a while."""
        self._world.staying, self._world.notice_us = staying, notice_us

    @property
    def instant(self) -> bool:
        """Whether nothing takes any time here, and all work is time worked."""
        return self._world.instant

    @property
    def arrivals(self) -> Sequence[tuple[int, JobId, JobSpec]]:
        """Instant, id and specification of every job of the trace, in its order."""
        return [(job.submit_us, job.job_id, job.spec) for job in self._arrivals]

    @property
    def arrives_us(self) -> int:
        """The instant of the next arrival; `NEVER_US` if there is none."""
        return self._arrives_us

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Carry orders out; outcomes that take time come back through `observe`."""
        self._world.perform(effects, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Jump to the next instant; return what happens up to the round's end."""
        if until_us is not None and until_us < self._now_us:
            until_us = self._now_us  # what was due before a world went on
        while True:
            next_us = self._next_us()
            if next_us == NEVER_US and until_us is None:
                return self._now_us, (WorldEnded(self._now_us),)
            if until_us is not None and next_us > until_us:
                self._now_us = until_us
                return until_us, (NothingComes(until_us),) if next_us == NEVER_US else ()
            last_us = next_us
            if not self._world.leaving:
                last_us = self._gather_upto(next_us, gather_us)
                if until_us is not None and until_us < last_us:
                    last_us = until_us
            self._now_us = last_us
            inputs = self._inputs_upto(last_us)
            if inputs or last_us == until_us:
                return last_us, inputs

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
                    inputs.extend(self._world.sampler.measured(job_id, at_us))
                elif type(what) is TurnDue and self._world.turns is not None:
                    self._world.turns.due(what, at_us)
                elif type(what) is Ready and self._world.turns is not None:
                    self._world.turns.ready(job_id, at_us)
                else:
                    self._world.leaving -= type(what) is facts.GpusReleased
                    inputs.append(
                        at_its_speed(what, runs) if type(what) is facts.AttemptStarted else what
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
        return not self._world.leaving if end_us is None else end_us <= now_us

    def _arrive(self, inputs: list[Input]) -> None:
        arrivals, place = self._arrivals, self._next
        job = arrivals[place]
        self._work.arrive(job, self._first + place)
        self._next = place = place + 1
        self._arrives_us = arrivals[place].submit_us if place < len(arrivals) else NEVER_US
        inputs.append(SubmitJob(job.submit_us, job.job_id, job.spec, job.duration_us))

    def _exit(self, job_id: JobId, run: Run, at_us: int, inputs: list[Input]) -> None:
        work = self._work
        work.forget(job_id, run, at_us)
        if work.gpu_tenants is None and self._world.turns is None:
            del work.runs[job_id]
        else:
            work.end(job_id)
            self._left_behind(job_id, run, at_us)
        if run.task.exit_code == KILLED:
            inputs.append(CancelJob(at_us, job_id, run.task.spec.user))
        inputs.append(self._world.exited(job_id, run, at_us))

    def _left_behind(self, job_id: JobId, run: Run, at_us: int) -> None:
        """Speed up the partners of a job that has ended, from the next round of gangs on."""
        if self._rounds is None:
            self._world.went(job_id, run, at_us)
        else:
            self._stale.update(dict.fromkeys(self._work.slowed_by(job_id, run.allocation)))

    def _change_node(self, inputs: list[Input]) -> None:
        change = self._changes.take()
        at_us = change.at_us
        if not change.is_loss:
            inputs.append(facts.NodeReachable(at_us, change.node))
            return
        inputs.append(facts.NodeLost(at_us, change.node, change.cause))
        there = [name for name, run in self._work.runs.items() if change.node in run.nodes]
        if self._world.turns is not None:
            self._world.turns.lost(change.node)
        for job_id in there:
            run = self._work.runs[job_id]
            if run.is_over(at_us):
                self._exit(job_id, run, at_us, inputs)
            else:
                lost_us = self._work.lose(job_id, at_us)
                self._world.went(job_id, run, at_us)
                inputs.append(facts.AttemptLost(at_us, job_id, run.attempt, "node lost", lost_us))

    def _end_round(self, rounds: GangRounds, at_us: int, inputs: list[Input]) -> None:
        ended = [(name, run) for name, run in self._work.runs.items() if run.is_over(at_us)]
        for job_id, run in ended:
            self._exit(job_id, run, at_us, inputs)
        rounds.next_round(at_us)
        self._world.update_step_rates(
            [job_id for job_id in self._stale if job_id in self._work.runs], at_us
        )
        self._stale.clear()
        for job_id, run in self._work.runs.items():
            self._world.foresee_end(job_id, run)
        inputs.append(RoundEnded(at_us))
