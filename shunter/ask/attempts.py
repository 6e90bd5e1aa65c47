"""The attempts in a log, with the instants and steps that show what each of them cost.

    launched ─ start-up ─▶ first mini-batch ─ work ─▶ request seen ─ save and exit ─▶ GPUs released

The end of the first mini-batch is an event (`TrainingStarted`) where the job reports it. In older
logs the number of steps and their mean duration say when it was (costs.py). Where a job reports no
steps, work begins with `AttemptStarted`. Histories are those of job_history.py, with what the fold
knows besides. Read `observe_log` first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from shunter.ask.job_history import Attempt, JobHistory, happened_us
from shunter.ask.log_reading import Advance, Follower, LogFold
from shunter.core import LAUNCHING, NO_RESULT, FoldResult, Gpu, Job, State, gpus_of
from shunter.core.speeds import contract_speed
from shunter.events import Allocation, Event, GpuType, JobId, JobSpec, Share, end_us_of, facts
from shunter.events.log import LogReader

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


_NO_TYPE = GpuType("")
Save = tuple[int, int | None]
"""When a checkpoint was complete, and at which step."""


@dataclass(slots=True)
class ObservedAttempt(Attempt):
    """An attempt that was seen to start, with what the fold knows of it besides.

    It was ordered at `ordered_us`, and launched then, or when who starts jobs instead of the
    scheduler (Slurm) came to it; `seen_us` is when its processes were seen, at the earliest at its
    launch. `shares` are what it had then, on GPUs of one type. `first_step` are the steps that its
    checkpoint held when it began. It told its first mini-batch at `trained_us`. `stopped_us` is the
    time for which its processes stood still, by an order or because others had the turn:
    `stopped_at_first_us` of it before its first mini-batch. `paces` are its speeds by the contract
    of its job, in a live log; none: there is no contract.
    """

    shares: tuple[Share, ...] = ()
    gpu_type: GpuType = _NO_TYPE
    ordered_us: int = 0
    launched_us: int = 0
    seen_us: int = 0
    first_step: int = 0
    is_elsewhere: bool = False
    trained_us: int | None = None
    stopped_us: int = 0
    stopped_since_us: int | None = None
    stopped_at_first_us: int = 0
    can_move: bool = False
    saves: list[Save] = field(default_factory=list)
    batches_s: list[float] = field(default_factory=list)
    paces: list[Pace] = field(default_factory=list)

    @property
    def gpus(self) -> int:
        """How many GPUs it had."""
        return sum([share.gpus for share in self.shares])

    @property
    def at_work_us(self) -> int:
        """When it was seen to start, or had ended if its start was seen only after that."""
        return self.seen_us if self.ended_us is None else min(self.seen_us, self.ended_us)

    @property
    def told_us(self) -> int | None:
        """When it was told to leave, if that was after its start."""
        asked_us = self.asked_us
        return None if asked_us is None or asked_us < self.seen_us else asked_us

    @property
    def saved_on_leaving(self) -> Save | None:
        """The checkpoint that it wrote because it was told to leave."""
        if self.told_us is None or not self.saves or self.saves[-1][0] < self.told_us:
            return None
        return self.saves[-1]

    @property
    def worked_until_us(self) -> int | None:
        """When it stopped working, None if that was not seen."""
        if self.acknowledged_us and self.saved_on_leaving is not None:
            until_us: int | None = self.acknowledged_us[0]
        else:
            until_us = self.ended_us
        since_us = self.stopped_since_us
        return until_us if until_us is None or since_us is None else min(until_us, since_us)


@dataclass(slots=True)
class ObservedJob(JobHistory):
    """One job with its attempts that were `seen` to start.

    `counted_us` is the work that the state counted. It `tells_steps` if a sample or a checkpoint of
    it named one, and `has_run` if it held GPUs and, live, was seen to start there.
    """

    attempt_type: ClassVar[type[Attempt]] = ObservedAttempt
    ordinal: int = 0
    seen: list[ObservedAttempt] = field(default_factory=list)
    counted_us: int = 0
    has_run: bool = False
    tells_steps: bool = False

    @property
    def job_id(self) -> JobId:
        """Its id."""
        return self.submitted.job_id

    @property
    def spec(self) -> JobSpec:
        """What it asked for."""
        return self.submitted.spec

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


def known_step(job: ObservedJob, attempt: ObservedAttempt) -> tuple[int, int] | None:
    """Return the last instant at which the step of an attempt is known, and the step."""
    is_done = attempt.has_exited and job.outcome is facts.Outcome.finished
    if is_done and job.spec.total_steps is not None and attempt.ended_us is not None:
        return attempt.ended_us, job.spec.total_steps
    saves = [(at_us, step) for at_us, step in attempt.saves if step is not None]
    if not saves:
        return None
    at_us, step = saves[-1]
    if attempt.saved_on_leaving is not None and attempt.acknowledged_us:
        at_us = min(at_us, attempt.acknowledged_us[0])
    return at_us, step


def checkpoint_interval_us(job: ObservedJob) -> int | None:
    """Return how often a job saves: as it says itself, or else as it was seen."""
    if job.spec.checkpoint_interval_us is not None:
        return job.spec.checkpoint_interval_us
    gaps_us: list[int] = []
    for attempt in job.seen:
        told_us = attempt.told_us
        saves_us = [at_us for at_us, _ in attempt.saves if told_us is None or at_us < told_us]
        gaps_us += [after - before for before, after in pairwise(saves_us)]
    return sorted(gaps_us)[len(gaps_us) // 2] if gaps_us else None


async def observe_log(reader: LogReader, advance: Advance | None = None) -> Observed:
    """Return what a log says of its jobs and their attempts."""
    head = await reader.head()
    fold = LogFold(reader)
    gathering = _Gathering(Observed(str(reader.url), head.chain.hex()), fold.state)
    await fold.forward(head.seq, (gathering,), advance)
    return gathering.ended()


class _Gathering(Follower):
    """Follows a log, and notes of each attempt what is told of it."""

    def __init__(self, observed: Observed, state: State) -> None:
        self.state = state
        self._result = NO_RESULT
        self._observed = observed
        self._jobs: dict[JobId, ObservedJob] = {}
        self._ordered_us: int | None = None
        self._switches = Switches()
        self._paces = Paces()

    def before(self, event: Event, state: State) -> None:
        """Note when a launch was ordered: the state forgets that."""
        if type(event) is facts.AttemptStarted:
            self._ordered_us = state.jobs[event.job_id].since_us if event.waited else None

    def take(self, event: Event, state: State, result: FoldResult) -> None:
        """Note what an event says that has just been folded."""
        self._result = result
        note = _NOTED.get(type(event))
        if note is not None:
            note(self, event)
        for job in result.launched:
            self._jobs[job.job_id].launched(job.attempt)
        if type(event) in _SPEED_CHANGES or self._result.launched or self._result.departed:
            self._paces.update(self.state, event.at_us)

    def ended(self) -> Observed:
        """Return what came together."""
        found = self._observed
        found.jobs, found.switches_us = list(self._jobs.values()), self._switches.took_us
        servers = self.state.cluster.servers.values()
        found.types = tuple(dict.fromkeys(each.configuration.gpu_type for each in servers))
        return found

    def began(self, event: facts.SchedulerStarted) -> None:
        self._observed.is_simulated, self._observed.config = event.simulated, event.config

    def submitted(self, event: facts.JobSubmitted) -> None:
        ordinal = self.state.jobs[event.job_id].ordinal
        self._jobs[event.job_id] = ObservedJob(event, ordinal=ordinal)

    def started(self, event: facts.AttemptStarted) -> None:
        known, job = self._jobs[event.job_id], self.state.jobs[event.job_id]
        known.take(event)
        attempt, shares = known.attempts[-1], job.held.shares
        if not shares or job.since_us is None or attempt.number != event.attempt:
            return
        assert isinstance(attempt, ObservedAttempt), "an observed job has no others"
        steps = [step for each in known.seen for _, step in each.saves]
        attempt.shares = shares
        attempt.gpu_type = self.state.cluster.servers[shares[0].node].configuration.gpu_type
        attempt.ordered_us = job.since_us if self._ordered_us is None else self._ordered_us
        attempt.launched_us = job.since_us
        attempt.seen_us = max(job.since_us, attempt.started_us or 0)
        attempt.first_step = (steps[-1] if steps else 0) or 0
        attempt.is_elsewhere = bool(known.seen) and known.seen[-1].shares != shares
        if not self._observed.is_simulated:  # there the log tells speeds
            attempt.paces = self._paces.began(job, self.state, event.at_us)
        if attempt.turns is not None:
            attempt.stopped_since_us = attempt.seen_us
        known.seen.append(attempt)

    def changed(
        self, event: facts.AllocationChanged | facts.AllocationLearned | facts.JobReshaped
    ) -> None:
        self._jobs[event.job_id].take(event)

    def told(self, event: Any) -> None:
        """Note what an event says of an attempt that was seen to start."""
        job = self._jobs[event.job_id]
        job.take(event)
        attempt = job.seen[-1] if job.seen else None
        if attempt is None or attempt.number != event.attempt:
            return
        if isinstance(event, facts.TurnStarted) and not self.state.jobs[event.job_id].gpus:
            return  # the gang has it on some of its servers only
        if isinstance(event, facts.TurnStarted) and attempt.stopped_since_us is not None:
            since_us = attempt.stopped_since_us
            self._switches.began(event.job_id, event.shares[0], happened_us(event), since_us)
        _note_work(job, attempt, event)
        over_us = attempt.ended_us if attempt.ended_us is not None else attempt.stopped_since_us
        if over_us is not None:
            self._switches.ended(event.job_id, over_us)

    def job_ended(self, event: facts.JobFinished | facts.JobFailed | facts.JobCancelled) -> None:
        known, job = self._jobs[event.job_id], self._result.departed
        assert job is not None, "an end without a job"
        known.take(event)
        known.counted_us = max(0, job.work_us - (event.at_us - end_us_of(event)))
        was_seen = bool(known.seen) or self._observed.is_simulated
        known.has_run = job.first_start_us is not None and was_seen
        if known.seen and known.seen[-1].has_exited:
            known.seen[-1].ended_us = end_us_of(event)


def _note_work(job: ObservedJob, attempt: ObservedAttempt, event: Event) -> None:
    """Note what an attempt worked and saved, and when it stood still."""
    at_us = event.at_us
    if isinstance(event, facts.TrainingStarted):
        attempt.trained_us, job.tells_steps = at_us, True
        attempt.stopped_at_first_us = attempt.stopped_us
    elif isinstance(event, facts.TurnStarted):
        attempt.can_move |= event.can_move
        _go_on(attempt, happened_us(event))
    elif isinstance(event, facts.TurnEnded | facts.JobStopped):
        if attempt.stopped_since_us is None:  # of a gang the first server that ends a turn counts
            attempt.stopped_since_us = happened_us(event)
    elif isinstance(event, facts.CheckpointSaved):
        attempt.saves.append((at_us, event.step))
        job.tells_steps |= event.step is not None
    elif isinstance(event, facts.ProfileSampled):
        job.tells_steps |= event.step is not None
        if event.step is not None and event.batch_s:
            attempt.batches_s.append(event.batch_s)
    elif (
        isinstance(event, facts.JobContinued) and attempt.turns is None
    ):  # else it waits for its turn
        _go_on(attempt, at_us)


def _go_on(attempt: ObservedAttempt, at_us: int) -> None:
    if attempt.stopped_since_us is not None:
        attempt.stopped_us += max(0, at_us - attempt.stopped_since_us)
        attempt.stopped_since_us = None


_OF_ATTEMPTS = (
    *(
        facts.TrainingStarted,
        facts.SuspendAcknowledged,
        facts.SuspendEscalated,
        facts.CheckpointSaved,
        facts.ProfileSampled,
    ),
    *(
        facts.JobStopped,
        facts.JobContinued,
        facts.JobSuspended,
        facts.AttemptLost,
        facts.AttemptEnded,
        facts.GpusReleased,
    ),
    *(facts.LaunchFailed, facts.TurnStarted, facts.TurnEnded),
)
_SPEED_CHANGES = frozenset((*_OF_ATTEMPTS, facts.AttemptStarted)) - {
    *(facts.ProfileSampled, facts.CheckpointSaved, facts.LaunchFailed)
}
_NOTED: dict[type[Event], Callable[[_Gathering, Any], None]] = {
    facts.SchedulerStarted: _Gathering.began,
    facts.JobSubmitted: _Gathering.submitted,
    facts.AttemptStarted: _Gathering.started,
    **dict.fromkeys(
        (facts.AllocationChanged, facts.AllocationLearned, facts.JobReshaped), _Gathering.changed
    ),
    **dict.fromkeys(_OF_ATTEMPTS, _Gathering.told),
    facts.JobFinished: _Gathering.job_ended,
    facts.JobFailed: _Gathering.job_ended,
    facts.JobCancelled: _Gathering.job_ended,
}
