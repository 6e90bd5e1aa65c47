"""The attempts in a log, with the instants and steps that show what each of them cost.

    launched ─ start-up ─▶ first mini-batch ─ work ─▶ request seen ─ save and exit ─▶ GPUs released

The end of the first mini-batch is an event (`TrainingStarted`) where the job reports it. In older
logs the number of steps and their mean duration say when it was (costs.py). Where a job reports no
steps, work begins with `AttemptStarted`. Read `observe_log` first; `AttemptTurns` follows the turns
of one attempt alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from shunter.ask.log_reading import Advance, fold_events, noted_us_of, rules_of_log
from shunter.core import LAUNCHING, NO_RESULT, SUSPENDING, Gpu, Job, State, gpus_of
from shunter.core.speeds import contract_speed
from shunter.events import (
    JOB_ENDS,
    Allocation,
    AllocationChanged,
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    CheckpointSaved,
    Event,
    GpusReleased,
    GpuType,
    JobCancelled,
    JobContinued,
    JobFailed,
    JobFinished,
    JobId,
    JobSpec,
    JobStopped,
    JobSubmitted,
    JobSuspended,
    LaunchFailed,
    MemoryPastJobs,
    NodeName,
    Outcome,
    ProfileSampled,
    SchedulerStarted,
    Share,
    Sharing,
    SuspendAcknowledged,
    SuspendEscalated,
    TrainingStarted,
    TurnEnded,
    TurnStarted,
    end_us_of,
)
from shunter.events.log import LogReader
from shunter.gc_control import collector_off

# Speeds by contract, for live logs, which record none. An attempt that ran t seconds at speed s did
# t x s of work. A simulated world takes s from `contract_speed` as well, so it takes t again.


class Pace(NamedTuple):
    """A speed from an instant on, of that with all GPUs near and alone."""

    from_us: int
    speed: float


class Paces:
    """The speeds of the attempts that run now of jobs with a contract."""

    def __init__(self) -> None:
        self._running: dict[JobId, list[Pace]] = {}

    def began(self, job: Job, state: State, at_us: int) -> list[Pace]:
        """Return the speeds of a new attempt, to which later ones are added.

        They are none where the job says nothing of distance and neighbours.
        """
        paces: list[Pace] = []
        if job.spec.has_curve or job.spec.interference:
            self._running[job.job_id] = paces
            _note(paces, job, state, at_us)
        return paces

    def update(self, state: State, at_us: int) -> None:
        """Note who is faster or slower now that something else runs."""
        for job_id, paces in list(self._running.items()):
            job = state.jobs.get(job_id)
            if job is None or not job.held.shares:
                del self._running[job_id]
            else:
                _note(paces, job, state, at_us)


def mean_speed(paces: Sequence[Pace], from_us: int, until_us: int) -> float:
    """Return how fast an attempt was on average from one instant to another.

    Args:
        paces: its speeds; none: it had all of its speed.
        from_us: the first instant; before the first of its speeds that one counts.
        until_us: the last instant; if it is not later, the speed at the first counts.
    """
    if not paces:
        return 1.0
    speed, done_us, since_us = paces[0].speed, 0.0, from_us
    for pace in paces:
        if pace.from_us > since_us:
            at_us = min(pace.from_us, until_us)
            done_us += max(0, at_us - since_us) * speed
            since_us = max(since_us, at_us)
            if pace.from_us >= until_us:
                break
        speed = pace.speed
    if until_us <= from_us:
        return speed
    return (done_us + (until_us - since_us) * speed) / (until_us - from_us)


def _note(paces: list[Pace], job: Job, state: State, at_us: int) -> None:
    servers = state.cluster.servers
    nodes = {share.node: servers[share.node].configuration for share in job.held.shares}
    around = _neighbours(job, state) if job.spec.interference else ()
    speed = contract_speed(job.spec, job.held, around, nodes)
    if not paces or paces[-1].speed != speed:
        paces.append(Pace(at_us, speed))


def _neighbours(job: Job, state: State) -> list[Allocation]:
    """Return where others run on other GPUs of a job's servers."""
    mine = {share.node: share.gpu_mask for share in job.held.shares}
    found = []
    for other in state.jobs.values():
        shares = other.held.shares
        if other is job or not _runs(other) or all(share.node not in mine for share in shares):
            continue
        if not any(share.gpu_mask & mine.get(share.node, 0) for share in shares):
            found.append(other.held)
    return found


def _runs(job: Job) -> bool:
    """Say whether a job is on its GPUs: from its launch on, as in simulations."""
    works = job.working_since_us is not None and job.speed > 0
    return bool(job.gpus) and (works or job.phase is LAUNCHING)


# How long GPUs took to change hands, counted only where the other job waited already:
#
#     turn of one ends ─ its processes stop, those of the other go on ─▶ turn of the other begins


@dataclass(slots=True)
class Switches:
    """Notes turns as they begin and end.

    `took_us` are the changes of hands, in microseconds.
    """

    took_us: list[int] = field(default_factory=list)
    _turns: dict[JobId, Share] = field(default_factory=dict)
    _left_us: dict[Gpu, int] = field(default_factory=dict)

    def began(self, job_id: JobId, share: Share, at_us: int, waits_since_us: int) -> None:
        """Note that a job has its turn, for which it had waited.

        Where the end of the turn before is not noted yet, nobody knows how long it took.
        """
        gpus = gpus_of(share)
        is_known = not any(gpu in gpus for other in self._turns.values() for gpu in gpus_of(other))
        left_us = max([self._left_us.get(gpu, -1) for gpu in gpus])
        if is_known and left_us > waits_since_us:
            self.took_us.append(max(0, at_us - left_us))
        self._turns[job_id] = share

    def ended(self, job_id: JobId, at_us: int) -> None:
        """Note that the turn of a job is over, if it had one."""
        share = self._turns.pop(job_id, None)
        if share is not None:
            self._left_us |= dict.fromkeys(gpus_of(share), at_us)


# Turns count from when they really began to when they really ended, even if that was seen later. A
# gang's turn counts while the turns on all of its servers are on; how far they are apart is its
# *skew*.

_OVER = (JobSuspended, AttemptEnded, AttemptLost, LaunchFailed, GpusReleased, *JOB_ENDS)


@dataclass(slots=True)
class AttemptTurns:
    """The turns so far of an attempt; times in microseconds.

    `changed_us` is when the last one began or ended (None: there was none), or its work began.
    `gpus` are those of the turn that it has, 0: it has none. `past_us` and `past_gpu_us` are of
    turns that are over. `gang` is how many GPUs a turn is on, where servers tell of parts (0: they
    do not), `parts` since when which of them are on, with their GPUs; `skews_us` how far apart they
    began. `places` is where its last turn was, by server.
    """

    count: int = 0
    changed_us: int | None = None
    gpus: int = 0
    past_us: int = 0
    past_gpu_us: int = 0
    gang: int = 0
    parts: dict[NodeName, tuple[int, int]] = field(default_factory=dict)
    skews_us: list[int] = field(default_factory=list)
    places: dict[NodeName, Share] = field(default_factory=dict)

    @property
    def is_on(self) -> bool:
        """Whether it has its turn."""
        return bool(self.gpus)

    def on_us(self, now_us: int) -> int:
        """Return for how long it had its turn, up to an instant."""
        return self.past_us + self._present_us(now_us)

    def service_gpu_us(self, now_us: int) -> int:
        """Return its service up to an instant, in GPU-microseconds."""
        return self.past_gpu_us + self.gpus * self._present_us(now_us)

    def take(self, event: Event) -> None:
        """Go through the next event about its job while it is under way."""
        if isinstance(event, TurnStarted):
            self.parts |= {share.node: (happened_us(event), share.gpus) for share in event.shares}
            self.places |= {share.node: share for share in event.shares}
            gpus = sum([gpus for _, gpus in self.parts.values()])
            if gpus >= self.gang:
                self._begin(gpus)
        elif isinstance(event, TurnEnded):
            for node in event.nodes or tuple(self.parts):
                self.parts.pop(node, None)
            if self.gpus or not self.gang:
                self._change(happened_us(event))
                at_us = self.changed_us or 0
                self.parts = {node: (at_us, gpus) for node, (_, gpus) in self.parts.items()}
        elif isinstance(event, AttemptStarted):
            self._change(event.at_us if event.started_us is None else event.started_us)
        elif isinstance(event, _OVER):
            self.parts.clear()
            if self.gpus:
                self._change(happened_us(event))

    def _begin(self, gpus: int) -> None:
        """Begin a turn, that of a gang when the last of its parts did."""
        began = [began_us for began_us, _ in self.parts.values()]
        self._change(max(began))
        self.count += 1
        self.gpus = gpus
        if len(began) > 1:
            self.skews_us.append(max(began) - min(began))

    def _change(self, at_us: int) -> None:
        """End the turn that it has, if any; nothing changes before what changed last."""
        at_us = at_us if self.changed_us is None else max(at_us, self.changed_us)
        present_us = self._present_us(at_us)
        self.past_us += present_us
        self.past_gpu_us += self.gpus * present_us
        self.gpus, self.changed_us = 0, at_us

    def _present_us(self, now_us: int) -> int:
        """Return how long the turn lasts that it has."""
        return max(0, now_us - self.changed_us) if self.gpus and self.changed_us is not None else 0


def happened_us(event: Event) -> int:
    """Return when a turn changed or processes went, though that was seen later."""
    noted_us = noted_us_of(event)
    return event.at_us if noted_us is None else noted_us


Save = tuple[int, int | None]
"""When a checkpoint was complete, and at which step."""


@dataclass(slots=True)
class Attempt:
    """One attempt that was seen to start.

    Instants are microseconds; None: it did not come to that.

    It was ordered at `ordered_us`, and launched then, or when who starts jobs instead of the
    scheduler (Slurm) came to it. `first_step` are the steps that its checkpoint held when it began.
    It told its first mini-batch at `trained_us`. It was `told_us` to leave, had seen that at
    `acknowledged_us`, and was over at `left_us`. `lost_us` is the time at work
    that the log says was lost, `stopped_us` the time for which its processes stood still, by an
    order or because others had the turn: `stopped_at_first_us` of it before its first mini-batch.
    `paces` are its speeds by the contract of its job, in a live log; none: there is no contract.
    """

    number: int
    shares: tuple[Share, ...]
    gpu_type: GpuType
    ordered_us: int
    launched_us: int
    started_us: int
    first_step: int
    is_elsewhere: bool
    trained_us: int | None = None
    told_us: int | None = None
    acknowledged_us: int | None = None
    left_us: int | None = None
    released_us: int | None = None
    lost_us: int = 0
    stopped_us: int = 0
    stopped_since_us: int | None = None
    stopped_at_first_us: int = 0
    takes_turns: bool = False
    can_move: bool = False
    saves: list[Save] = field(default_factory=list)
    batches_s: list[float] = field(default_factory=list)
    paces: list[Pace] = field(default_factory=list)
    was_forced: bool = False
    is_lost: bool = False
    is_last: bool = False

    @property
    def gpus(self) -> int:
        """How many GPUs it had."""
        return sum([share.gpus for share in self.shares])

    @property
    def at_work_us(self) -> int:
        """When it was seen to start, or had ended if its start was seen only after that."""
        return self.started_us if self.left_us is None else min(self.started_us, self.left_us)

    @property
    def saved_on_leaving(self) -> Save | None:
        """The checkpoint that it wrote because it was told to leave."""
        if self.told_us is None or not self.saves or self.saves[-1][0] < self.told_us:
            return None
        return self.saves[-1]

    @property
    def worked_until_us(self) -> int | None:
        """When it stopped working, None if that was not seen."""
        if self.acknowledged_us is not None and self.saved_on_leaving is not None:
            until_us: int | None = self.acknowledged_us
        else:
            until_us = self.left_us
        since_us = self.stopped_since_us
        return until_us if until_us is None or since_us is None else min(until_us, since_us)


@dataclass(slots=True)
class ObservedJob:
    """One job with its attempts.

    `declared_us` is the run time that a trace declared, `counted_us` the work that the state
    counted. It `tells_steps` if a sample or a checkpoint of it named one, and `has_run` if it held
    GPUs and, live, was seen to start there. `outcome` is None while it has not ended.
    """

    job_id: JobId
    ordinal: int
    submit_us: int
    spec: JobSpec
    declared_us: int | None
    attempts: list[Attempt] = field(default_factory=list)
    outcome: Outcome | None = None
    counted_us: int = 0
    has_run: bool = False
    tells_steps: bool = False

    @property
    def saves_on_leaving(self) -> bool:
        """Whether its mode saves when it is told to leave."""
        return not self.spec.suspend_mode.loses_work


@dataclass(slots=True)
class Observed:
    """What a log says of its jobs, in the order of their submission.

    `switches_us` are the times that GPUs took to change hands between jobs that share them in
    turns.
    """

    url: str
    digest: str
    jobs: list[ObservedJob] = field(default_factory=list)
    is_simulated: bool = False
    config: str = "{}"
    types: tuple[GpuType, ...] = ()
    switches_us: Sequence[int] = ()


def known_step(job: ObservedJob, attempt: Attempt) -> tuple[int, int] | None:
    """Return the last instant at which the step of an attempt is known, and the step."""
    is_done = attempt.is_last and job.outcome is Outcome.finished
    if is_done and job.spec.total_steps is not None and attempt.left_us is not None:
        return attempt.left_us, job.spec.total_steps
    saves = [(at_us, step) for at_us, step in attempt.saves if step is not None]
    if not saves:
        return None
    at_us, step = saves[-1]
    if attempt.saved_on_leaving is not None and attempt.acknowledged_us is not None:
        at_us = min(at_us, attempt.acknowledged_us)
    return at_us, step


def checkpoint_interval_us(job: ObservedJob) -> int | None:
    """Return how often a job saves: as it says itself, or else as it was seen."""
    if job.spec.checkpoint_interval_us is not None:
        return job.spec.checkpoint_interval_us
    gaps_us: list[int] = []
    for attempt in job.attempts:
        told_us = attempt.told_us
        saves_us = [at_us for at_us, _ in attempt.saves if told_us is None or at_us < told_us]
        gaps_us += [after - before for before, after in pairwise(saves_us)]
    return sorted(gaps_us)[len(gaps_us) // 2] if gaps_us else None


async def observe_log(reader: LogReader, advance: Advance | None = None) -> Observed:
    """Return what a log says of its jobs and their attempts."""
    head = await reader.head()
    gathering = _Gathering(Observed(str(reader.url), head.chain.hex()))
    with collector_off():
        async for frame in reader.frames(0, head.seq):
            for event in frame.events():
                gathering.take(event)
            if advance is not None:
                advance(gathering.state.seq, head.seq)
    return gathering.ended()


class _Gathering:
    """Folds a log, and notes of each attempt what is told of it."""

    def __init__(self, observed: Observed) -> None:
        self.state = State()
        self._rules = rules_of_log(MemoryPastJobs())
        self._result = NO_RESULT
        self._observed = observed
        self._jobs: dict[JobId, ObservedJob] = {}
        self._ordered_us: int | None = None
        self._switches = Switches()
        self._paces = Paces()

    def take(self, event: Event) -> None:
        """Fold an event, and note what it says."""
        self._ordered_us = None
        if isinstance(event, AttemptStarted) and event.waited:  # the state forgets when it was
            self._ordered_us = self.state.jobs[event.job_id].since_us
        self._result = fold_events(self.state, (event,), self._rules)
        note = _NOTED.get(type(event))
        if note is not None:
            note(self, event)
        if type(event) in _SPEED_CHANGES or self._result.launched or self._result.departed:
            self._paces.update(self.state, event.at_us)

    def ended(self) -> Observed:
        """Return what came together."""
        found = self._observed
        found.jobs, found.switches_us = list(self._jobs.values()), self._switches.took_us
        servers = self.state.cluster.servers.values()
        found.types = tuple(dict.fromkeys(each.configuration.gpu_type for each in servers))
        return found

    def began(self, event: SchedulerStarted) -> None:
        self._observed.is_simulated, self._observed.config = event.simulated, event.config

    def submitted(self, event: JobSubmitted) -> None:
        ordinal = self.state.jobs[event.job_id].ordinal
        self._jobs[event.job_id] = ObservedJob(
            event.job_id, ordinal, event.at_us, event.spec, event.duration_us
        )

    def started(self, event: AttemptStarted) -> None:
        known, job = self._jobs[event.job_id], self.state.jobs[event.job_id]
        if not job.held.shares or job.since_us is None:
            return
        shares = job.held.shares
        server = self.state.cluster.servers[shares[0].node]
        began_us = event.at_us if event.started_us is None else event.started_us
        last = known.attempts[-1] if known.attempts else None
        steps = [step for attempt in known.attempts for _, step in attempt.saves]
        known.attempts.append(
            Attempt(
                event.attempt,
                shares,
                server.configuration.gpu_type,
                job.since_us if self._ordered_us is None else self._ordered_us,
                job.since_us,
                max(job.since_us, began_us),
                (steps[-1] if steps else 0) or 0,
                is_elsewhere=last is not None and last.shares != shares,
                takes_turns=job.held.sharing is Sharing.sliced,
            )
        )
        if not self._observed.is_simulated:  # there the log tells speeds
            known.attempts[-1].paces = self._paces.began(job, self.state, event.at_us)
        if known.attempts[-1].takes_turns:
            known.attempts[-1].stopped_since_us = known.attempts[-1].started_us

    def changed(self, event: AllocationChanged) -> None:
        attempt = self._open(event.job_id, None)
        leaves = self.state.jobs[event.job_id].phase is SUSPENDING
        if attempt is not None and leaves and attempt.told_us is None:
            attempt.told_us = event.at_us

    def told(self, event: Any) -> None:
        """Note what an event says of an attempt that was seen to start."""
        attempt = self._open(event.job_id, event.attempt)
        if attempt is None:
            return
        if isinstance(event, TurnStarted) and not self.state.jobs[event.job_id].gpus:
            return  # the gang has it on some of its servers only
        if isinstance(event, TurnStarted) and attempt.stopped_since_us is not None:
            since_us = attempt.stopped_since_us
            self._switches.began(event.job_id, event.shares[0], happened_us(event), since_us)
        _attempts_note(self._jobs[event.job_id], attempt, event)
        over_us = attempt.left_us if attempt.left_us is not None else attempt.stopped_since_us
        if over_us is not None:
            self._switches.ended(event.job_id, over_us)

    def job_ended(self, event: JobFinished | JobFailed | JobCancelled) -> None:
        known, job = self._jobs[event.job_id], self._result.departed
        assert job is not None, "an end without a job"
        known.outcome, known.counted_us = job.outcome, _worked_us(job, event)
        was_seen = bool(known.attempts) or self._observed.is_simulated
        known.has_run = job.first_start_us is not None and was_seen
        if known.attempts and known.attempts[-1].is_last:
            known.attempts[-1].left_us = end_us_of(event)

    def _open(self, job_id: JobId, number: int | None) -> Attempt | None:
        """Return the present attempt of a job, if it was seen to start."""
        known = self._jobs.get(job_id)
        if known is None or not known.attempts:
            return None
        last = known.attempts[-1]
        if number is None:
            job = self.state.jobs.get(job_id)
            number = -1 if job is None else job.attempt
        return last if last.number == number else None


def _worked_us(job: Job, event: JobFinished | JobFailed | JobCancelled) -> int:
    """Return the work of a job by the count of the state, up to when it really ended."""
    return max(0, job.work_us - (event.at_us - end_us_of(event)))


def _attempts_note(job: ObservedJob, attempt: Attempt, event: Event) -> None:
    at_us = event.at_us
    if isinstance(event, TrainingStarted):
        attempt.trained_us, job.tells_steps = at_us, True
        attempt.stopped_at_first_us = attempt.stopped_us
    elif isinstance(event, TurnStarted):
        attempt.can_move |= event.can_move
        _go_on(attempt, happened_us(event))
    elif isinstance(event, TurnEnded):
        if attempt.stopped_since_us is None:  # of a gang the first server that ends it counts
            attempt.stopped_since_us = happened_us(event)
    elif isinstance(event, SuspendAcknowledged):
        if attempt.acknowledged_us is None:
            attempt.acknowledged_us = at_us
    elif isinstance(event, SuspendEscalated):
        attempt.was_forced = True
    elif isinstance(event, CheckpointSaved):
        attempt.saves.append((at_us, event.step))
        job.tells_steps |= event.step is not None
    elif isinstance(event, ProfileSampled):
        job.tells_steps |= event.step is not None
        if event.step is not None and event.batch_s:
            attempt.batches_s.append(event.batch_s)
    elif isinstance(event, JobStopped):
        if attempt.stopped_since_us is None:
            attempt.stopped_since_us = at_us
    elif isinstance(event, JobContinued):
        if not attempt.takes_turns:  # else it waits for its turn
            _go_on(attempt, at_us)
    elif isinstance(event, JobSuspended):
        attempt.left_us, attempt.lost_us = at_us, event.lost_us
    elif isinstance(event, AttemptLost):
        attempt.left_us = attempt.released_us = at_us
        attempt.lost_us, attempt.is_lost = event.lost_us, True
    elif isinstance(event, AttemptEnded):
        attempt.left_us = happened_us(event)
        attempt.is_last = True
    elif isinstance(event, GpusReleased):
        attempt.released_us = at_us


def _go_on(attempt: Attempt, at_us: int) -> None:
    if attempt.stopped_since_us is not None:
        attempt.stopped_us += max(0, at_us - attempt.stopped_since_us)
        attempt.stopped_since_us = None


_OF_ATTEMPTS = (
    *(TrainingStarted, SuspendAcknowledged, SuspendEscalated, CheckpointSaved, ProfileSampled),
    *(JobStopped, JobContinued, JobSuspended, AttemptLost, AttemptEnded, GpusReleased),
    *(TurnStarted, TurnEnded),
)
_SPEED_CHANGES = frozenset((*_OF_ATTEMPTS, AttemptStarted)) - {ProfileSampled, CheckpointSaved}
_NOTED: dict[type[Event], Callable[[_Gathering, Any], None]] = {
    SchedulerStarted: _Gathering.began,
    JobSubmitted: _Gathering.submitted,
    AttemptStarted: _Gathering.started,
    AllocationChanged: _Gathering.changed,
    **dict.fromkeys(_OF_ATTEMPTS, _Gathering.told),
    JobFinished: _Gathering.job_ended,
    JobFailed: _Gathering.job_ended,
    JobCancelled: _Gathering.job_ended,
}
