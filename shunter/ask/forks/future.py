"""What a log says came after a moment: jobs, orders of people, losses of servers, and all work.

A fork gets this future, not the decisions in it. The work of a job is its run time where a trace
declares that, else its time at base speed until it ended. Of a job that was stopped before its end
nobody knows the rest. The log is folded meanwhile, for the jobs' stories.
"""

from dataclasses import dataclass, field, replace

from shunter.ask.attempts import Observed, observe_log
from shunter.ask.costs import Fitted, Launch, Slowed, fit_costs, slowed_in, slowed_us, work_us
from shunter.ask.forks.remaining import Worked, worked_by
from shunter.backends.simulated import EXIT_CODES, NodeChange, TotalWork
from shunter.config import CostsSection
from shunter.core import (
    NO_GUARDS,
    NO_RESULT,
    CancelJob,
    ChangePriority,
    DiscardCheckpoint,
    DrainNode,
    HoldJob,
    Input,
    Job,
    JobLedger,
    ReleaseJob,
    ResizeJob,
    RestoreNode,
    State,
    SuspendJob,
    View,
    merged,
)
from shunter.core.fold import RULES
from shunter.events import (
    HELD,
    JOB_ENDS,
    AllocationChanged,
    AttemptEnded,
    AttemptSetAside,
    CheckpointDiscarded,
    ConfigChanged,
    Event,
    FactClass,
    GpuQuarantined,
    GpuRestored,
    GpusTaken,
    JobCancelled,
    JobCancelRequested,
    JobFailed,
    JobHeld,
    JobId,
    JobPriorityChanged,
    JobRejected,
    JobReleased,
    JobResized,
    JobStopped,
    JobSubmitted,
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeReachable,
    NodeRemoved,
    NodeRestored,
    NodeUnreachable,
    Outcome,
    QuotaChanged,
    class_of,
)
from shunter.events.log import LogReader
from shunter.gc_control import collector_off
from shunter.run import WorldParts

_NOT_REPLAYED = (
    *(NodeAdded, NodeRemoved, QuotaChanged, ConfigChanged),
    *(GpuQuarantined, GpuRestored, AttemptSetAside),
)


@dataclass
class Future:
    """What came after a moment.

    `work` is that of the jobs that did all of it, or whose run time a trace knows; what is not
    there is not known. `inputs` are orders and observations in the order of the log. `ledger` and
    `state` are the jobs' stories up to the end of the log, `outcomes` how jobs had ended before the
    moment, as far as later submissions ask. `left_out` counts the facts by kind that a fork does
    not repeat; `ended` is what the jobs worked that did all of it.
    With `is_simulated` ends of killed jobs and losses of servers are the world's own.
    """

    state: State
    is_simulated: bool
    is_exact: bool = True
    ledger: JobLedger = field(default_factory=JobLedger)
    submissions: list[JobSubmitted] = field(default_factory=list)
    work: dict[JobId, TotalWork] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    node_changes: list[NodeChange] = field(default_factory=list)
    outcomes: dict[JobId, Outcome] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    ended: dict[JobId, Worked] = field(default_factory=dict)

    @property
    def end_us(self) -> int:
        """The instant of the last event."""
        return self.state.now_us

    def after(self, at_us: int) -> "Future":
        """Return what came after a later instant, with work of its own to correct."""
        return replace(
            self,
            submissions=[each for each in self.submissions if each.at_us > at_us],
            inputs=[each for each in self.inputs if each.at_us > at_us],
            node_changes=[each for each in self.node_changes if each.at_us > at_us],
            work=dict(self.work),
            ended=dict(self.ended),
        )

    def ended_before(self, state: State) -> dict[JobId, Outcome]:
        """Return how jobs had ended by a state at the moment, as far as later ones ask."""
        later = {each.job_id for each in self.submissions}
        return {
            job_id: outcome
            for job_id, outcome in self.outcomes.items()
            if job_id not in later and job_id not in state.jobs
        }

    def take(self, event: Event) -> None:
        """Note an event that is about to be folded."""
        kind = type(event)
        if isinstance(event, JobSubmitted):
            self._submitted(event)
        elif isinstance(event, JobCancelRequested):
            self._cancelled(event)
        elif isinstance(event, (JobHeld, JobReleased)):
            if class_of(event) is FactClass.commanded:
                holds = isinstance(event, JobHeld)
                make = HoldJob if holds else ReleaseJob
                self.inputs.append(make(event.at_us, event.job_id, event.by))
        elif isinstance(event, AttemptEnded):
            self.note_failure(event.job_id, event.exit_code)
        elif isinstance(event, AllocationChanged):
            if event.because == HELD:
                self._was_suspended(event.at_us, event.job_id)
        elif isinstance(event, JobStopped):
            self._was_suspended(event.at_us, event.job_id)
        elif (order := _order_of(event)) is not None:
            self.inputs.append(order)
        elif isinstance(event, (NodeLost, NodeReachable)):
            self._node_changed(event)
        elif kind in _NOT_REPLAYED:
            self.left_out[kind.__name__] = self.left_out.get(kind.__name__, 0) + 1

    def take_end(self, event: Event, job: Job) -> None:
        """Note how a job ended, right after that was folded."""
        job_id = job.job_id
        known = self.work.get(job_id)
        if isinstance(event, (JobCancelled, JobRejected)) or job.outcome is Outcome.timeout:
            return
        has_failed = isinstance(event, JobFailed)
        exit_code = EXIT_CODES["failed"] if has_failed else 0
        self.ended[job_id] = worked_by(job, job.work_us)
        if known is not None:
            self.work[job_id] = TotalWork(known.total_us, exit_code)
        else:
            self.work[job_id] = TotalWork(job.work_us, exit_code)

    def note_failure(self, job_id: JobId, exit_code: int | None) -> None:
        """Note that a job fails where its trace says how long it runs."""
        known = self.work.get(job_id)
        if known is not None and exit_code == EXIT_CODES["failed"]:
            self.work[job_id] = TotalWork(known.total_us, exit_code)

    def _submitted(self, event: JobSubmitted) -> None:
        self.submissions.append(event)
        if event.duration_us is not None:
            self.work[event.job_id] = TotalWork(event.duration_us)
        for job_id, outcome in event.ended:
            self.outcomes.setdefault(job_id, outcome)

    def _cancelled(self, event: JobCancelRequested) -> None:
        """Note an order to end a job, unless it is how the world ends one."""
        job = self.state.jobs.get(event.job_id)
        if job is None:
            return
        known = self.work.get(job.job_id)
        if self.is_simulated and known is not None and event.by == job.spec.user:
            has_done_all = job.done_us(event.at_us) >= known.total_us or not self.is_exact
            if job.working_since_us is not None and has_done_all:
                self.work[job.job_id] = TotalWork(known.total_us, EXIT_CODES["cancelled"])
                return
        self.inputs.append(CancelJob(event.at_us, event.job_id, event.by, event.group))

    def _was_suspended(self, at_us: int, job_id: JobId) -> None:
        """Make of an order to hold a job, just noted, one to suspend it."""
        last = self.inputs[-1] if self.inputs else None
        if isinstance(last, HoldJob) and (last.at_us, last.job_id) == (at_us, job_id):
            self.inputs[-1] = SuspendJob(at_us, job_id, last.by)

    def _node_changed(self, event: NodeLost | NodeReachable) -> None:
        is_loss = isinstance(event, NodeLost)
        cause = event.cause if isinstance(event, NodeLost) else ""
        self.node_changes.append(NodeChange(event.at_us, event.node, is_loss, cause))


def _order_of(event: Event) -> Input | None:
    """Return the order or observation that a fact is the only trace of."""
    if isinstance(event, JobPriorityChanged):
        return ChangePriority(event.at_us, event.job_id, event.priority, event.by, event.group)
    if isinstance(event, JobResized) and class_of(event) is FactClass.commanded:
        return ResizeJob(event.at_us, event.job_id, event.gpus, event.by)
    if isinstance(event, NodeDrained):
        return DrainNode(event.at_us, event.node, event.by)
    if isinstance(event, NodeRestored):
        return RestoreNode(event.at_us, event.node, event.by)
    if isinstance(event, CheckpointDiscarded) and class_of(event) is FactClass.commanded:
        return DiscardCheckpoint(event.at_us, event.job_id, event.by)
    return event if isinstance(event, (NodeUnreachable, GpusTaken)) else None


async def read_future(
    reader: LogReader, state: State, *, is_simulated: bool, is_exact: bool = True
) -> Future:
    """Fold the rest of a log, and return what came in it.

    Args:
        reader: the log.
        state: after some event; it is folded on to the end.
        is_simulated: whether the jobs of the log ran in a simulation.
        is_exact: whether all time at work was work there.
    Raises:
        IllegalEventError: an event does not fit those before it.
        LogDamagedError: the bytes of the log are not what was written.
    """
    work = {job_id: TotalWork(known_us) for job_id, known_us in state.durations_us.items()}
    future = Future(state, is_simulated, is_exact, work=work)
    view = _view_of(state)
    for job in state.jobs.values():
        if job.failures:
            future.note_failure(job.job_id, job.exit_code)
    observers = merged([future.ledger.observers()])
    with collector_off():
        async for frame in reader.frames(state.seq):
            for event in frame.events(state.seq):
                if type(event) in _TAKEN:
                    future.take(event)
                result = RULES[type(event)](state, event) or NO_RESULT
                state.now_us = event.at_us
                state.seq += 1
                view.result = result
                for observe in observers.get(type(event), ()):
                    observe(event, view)
                if result.departed is not None and isinstance(event, JOB_ENDS):
                    future.take_end(event, result.departed)
    return future


def _view_of(state: State) -> View:
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    return view


_TAKEN = frozenset(
    (
        *(JobSubmitted, JobCancelRequested, JobHeld, JobReleased, AllocationChanged, JobStopped),
        *(
            AttemptEnded,
            JobPriorityChanged,
            JobResized,
            NodeDrained,
            NodeRestored,
            CheckpointDiscarded,
        ),
        *(NodeUnreachable, GpusTaken, NodeLost, NodeReachable, *_NOT_REPLAYED),
    )
)
"""The kinds of which there is anything to note before they are folded."""


# A live scheduler counts start-ups, and time lost by a contract's speed, as work; a simulated world
# does not. So the whole work leaves them out, but for what was already counted at the moment.

STAYED_LEAST_US = 1_000_000
"""Who ends by itself so soon after it was told to leave may have been about to."""


@dataclass(frozen=True)
class Measured:
    """What a live log shows of its jobs, and the costs fitted to that."""

    observed: Observed
    fitted: Fitted

    @property
    def slowed(self) -> Slowed:
        """Who was slower by its contract, which the state does not count."""
        return slowed_in(self.observed, self.fitted)

    def parts(self, recorded: WorldParts) -> WorldParts:
        """Return the parts of the world that a log records, with the costs that it shows."""
        parts = measured_parts(recorded, self.fitted)
        return replace(
            parts,
            moving=_moving(self.observed),
            staying=_staying(self.observed),
            unmeasured=(*parts.unmeasured, *self.slowed.assumed),
        )

    def correct(self, future: Future, state: State) -> None:
        """Correct the work of the jobs of a future, once, by the state at its start."""
        for job in self.observed.jobs:
            known, attempts = future.work.get(job.job_id), len(job.seen)
            if known is None or not attempts or not job.has_run:
                continue
            # What is measured of attempts does not know in which of their time others had the turn.
            slowed_all_us = slowed_us(job, self.fitted)
            if (ended := future.ended.get(job.job_id)) is not None:
                work = max(1, ended.work_us - slowed_all_us) if slowed_all_us else ended.work_us
                future.ended[job.job_id] = ended._replace(work_us=work)
            pure_us = min(known.total_us, work_us(job, self.observed, self.fitted) + slowed_all_us)
            begun = state.jobs[job.job_id].attempt if job.job_id in state.jobs else 0
            extra_us = max(0, known.total_us - pure_us) * min(begun, attempts) // attempts
            counted_us = self.slowed.by_us(job.job_id, state.now_us)
            total_us = pure_us + extra_us - slowed_all_us + counted_us
            future.work[job.job_id] = TotalWork(total_us, known.exit_code)


async def measure(reader: LogReader) -> Measured:
    """Return what a live log shows, all of which is read."""
    observed = await observe_log(reader)
    return Measured(observed, fit_costs(observed))


def measured_parts(parts: WorldParts, fitted: Fitted) -> WorldParts:
    """Return the parts of a world with costs that were fitted to a log."""
    costs = {str(launch): fitted.cost_us(launch) for launch in Launch}
    if fitted.suspend_us is not None:
        costs["suspend"] = fitted.suspend_us
    if fitted.turn_us is not None:
        costs["turn"] = fitted.turn_us
    section = CostsSection.usual().model_copy(update=costs)
    simulation = parts.simulation.model_copy(update={"costs": section})
    return replace(
        parts,
        simulation=simulation,
        notice_us=fitted.notice_us,
        unmeasured=fitted.unmeasured,
    )


def _staying(observed: Observed) -> frozenset[JobId]:
    """Return who went on to its end, however long ago it was told to leave.

    Ranks on several servers that have no way to agree on a boundary do so.
    """
    told = [
        (job, each, each.ended_us - each.told_us)
        for job in observed.jobs
        for each in job.seen
        if each.told_us is not None and each.ended_us is not None and not each.escalated
    ]
    longest_us = max((took_us for _, each, took_us in told if not each.has_exited), default=0)
    least_us = max(STAYED_LEAST_US, longest_us)
    return frozenset(
        job.job_id
        for job, each, took_us in told
        if each.has_exited and job.outcome is Outcome.finished and took_us > least_us
        if not any(other.told_us and not other.has_exited for other in job.seen)  # it can leave
    )


def _moving(observed: Observed) -> frozenset[JobId]:
    """Return the jobs that said that they take their GPUs anew with each turn."""
    return frozenset(job.job_id for job in observed.jobs if any(each.can_move for each in job.seen))
