"""What follows from a fact, from the state, and from time, without any policy.

`Reactor` names what follows from each kind of fact. Before it come the parts that need more than a
line: attempts that leave unasked, what jobs measure, displaced jobs, lost attempts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from shunter.core.admission import Admission
from shunter.core.fold import backoff_us
from shunter.core.planning import RoundRules, gang_reactions
from shunter.core.speeds import (
    SAMPLES_BEFORE,
    MeasuredCell,
    SensitivityTable,
    TableCheck,
    corrected,
    level_of,
)
from shunter.core.state import (
    ENDING,
    LAUNCHING,
    PROMISED,
    RUNNING,
    SUSPENDING,
    WAITING,
    FoldResult,
    Job,
    JobPhase,
    State,
)
from shunter.core.timers import Due, Timers
from shunter.events import (
    ARRAY,
    BACKING_OFF,
    CLUSTER_CHANGES,
    DEPENDENCY,
    DISPLACED,
    EXITED,
    JOB_ENDS,
    LOST,
    NODE_LOST,
    NOTHING,
    RESIZED,
    TIMEOUT,
    Allocation,
    Event,
    FactClass,
    JobId,
    Level,
    Reason,
    Sharing,
    class_of,
    facts,
    record,
)

# Departures: attempts that leave unasked, with exit code 75, and those that end with 0 where they
# were to leave and had not finished. An attempt made progress if its checkpoints have a higher step
# than at the departure before; without steps, if it lived for long. Without progress a job that
# leaves unasked waits longer each time, and both fail in the end. The count is per term.

DEPARTURES_MOST: Final = 8
"""With so many departures in a row without progress a job fails that has no retries.

With retries it fails once it has had as many further attempts.
"""


class Departures:
    """What the attempts of jobs that left unasked have come to."""

    def __init__(self, state: State, rules: RoundRules) -> None:
        self._state, self._rules = state, rules
        self._counts: dict[JobId, int] = {}
        self._saved: dict[JobId, int] = {}
        self._left: dict[JobId, int] = {}
        self._failing: dict[JobId, str] = {}

    def saved(self, fact: facts.CheckpointSaved, before: object) -> Sequence[facts.JobHeld]:
        """Note the step of a checkpoint; nothing follows."""
        if fact.step is not None:
            self._saved[fact.job_id] = fact.step
        return ()

    def left(self, fact: facts.JobSuspended, began_us: int | None) -> Sequence[facts.JobHeld]:
        """Let a job wait whose attempt left, or fail once its GPUs are released.

        An attempt that somebody else ended, such as Slurm, says so as its cause, and is not
        counted.
        """
        job, at_us = self._state.jobs[fact.job_id], fact.at_us
        code = 75 if fact.exit_code is None else fact.exit_code
        count = self._counted(fact, began_us, f"left {{}} by itself (exit code {code})")
        if job.job_id in self._failing:
            return ()
        until_us = at_us + backoff_us(count) if count > 1 else None
        return () if job.is_on_hold else (facts.JobHeld(at_us, job.job_id, BACKING_OFF, until_us),)

    def ended(self, fact: facts.JobSuspended, began_us: int | None) -> Sequence[facts.JobHeld]:
        """Count an attempt that was to leave, and ended with 0 before it was finished.

        How soon it is launched again is up to whoever had it leave.
        """
        self._counted(fact, began_us, "ended {} with exit code 0 when asked to leave,")
        return ()

    def released(self, job: Job, at_us: int) -> Sequence[facts.JobFailed]:
        """Fail a job that has left too often, now that its GPUs are released.

        One that has others by now, to which it moves, fails after the next time.
        """
        cause = self._failing.pop(job.job_id, "")
        fails = bool(cause) and job.phase is WAITING
        return (facts.JobFailed(at_us, job.job_id, cause),) if fails else ()

    def _counted(self, fact: facts.JobSuspended, began_us: int | None, how: str) -> int:
        """Count a departure, and note that its job fails if there were too many."""
        job = self._state.jobs[fact.job_id]
        if not self._rules.bounds_departures or fact.cause:
            return 0
        count = self._count(job, 0 if began_us is None else fact.at_us - began_us)
        if count >= (job.spec.retries + 1 if job.spec.retries else DEPARTURES_MOST):
            times = "once" if count == 1 else f"{count} times in a row"
            self._failing[job.job_id] = f"{how.format(times)} without progress"
        else:
            self._failing.pop(job.job_id, None)
        return count

    def _count(self, job: Job, lived_us: int) -> int:
        """Count a departure; return how many in a row there were without progress."""
        for known in (self._counts, self._saved, self._left):
            for gone in [job_id for job_id in known if job_id not in self._state.jobs]:
                del known[gone]
        job_id, step = job.job_id, self._saved.get(job.job_id)
        progresses = lived_us >= LONG_US if step is None else step > self._left.get(job_id, -1)
        if step is not None:
            self._left[job_id] = step
        self._counts[job_id] = 0 if progresses else self._counts.get(job_id, 0) + 1
        return self._counts[job_id]


# For each share (CPUs and memory) on the same kind of GPUs, as far apart, the mean of a job's
# samples counts, without the first after a change. The *base* is the share whose configured speed
# is nearest to that of the proportional share; there the table is believed, so no correction rests
# on another correction. Samples with others on the GPUs do not count.

SAMPLES_LEAST = 3
"""So many samples with a share count before their mean does."""

_PACKED = Sharing.packed  # members are slow to look up
_DIGITS = 6

_Where = tuple[str, int, Level]
_PerGpu = tuple[int, int]


@record
class _Mean:
    """The mini-batches of one share: how many samples, and their sum in seconds."""

    samples: int = 0
    total_s: float = 0.0

    @property
    def batch_s(self) -> float:
        return self.total_s / self.samples


@record
class _Measured:
    """What one job has measured.

    `where` is on which GPUs; elsewhere it begins anew. `told` are the speeds that it corrected the
    table to, by share. `step` is that of its last sample.
    """

    where: _Where
    attempt: int
    allocation: Allocation
    share: _PerGpu
    means: dict[_PerGpu, _Mean]
    told: dict[_PerGpu, float]
    step: int | None = None


class MeasuredShares:
    """All jobs that measure themselves, from the beginning of a term on."""

    def __init__(self, state: State, check: TableCheck) -> None:
        self._state = state
        self._check = check
        self._jobs: dict[JobId, _Measured] = {}
        self._tables: dict[str, tuple[tuple[MeasuredCell, ...], SensitivityTable]] = {}

    def sampled(
        self, fact: facts.ProfileSampled, before: None
    ) -> Sequence[facts.SensitivityCorrected]:
        """Return how a sample corrects the table, if it does."""
        job = self._state.jobs[fact.job_id]
        if not fact.batch_s or job.phase is not RUNNING or self._check.table.of(job.spec) is None:
            return ()
        mine = self._jobs.get(fact.job_id)
        if mine is None or mine.attempt != job.attempt or mine.allocation != job.allocation:
            self._begin(job, mine, fact.step)
            return ()
        if self._has_company(job) or (fact.step is not None and fact.step == mine.step):
            return ()
        mine.step = fact.step
        mean = mine.means.setdefault(mine.share, _Mean())
        mean.samples += 1
        mean.total_s += fact.batch_s
        return self._compared(job, mine, fact.at_us)

    def _begin(self, job: Job, before: _Measured | None, step: int | None) -> None:
        """Begin with the share that a job has now; of that share before, nothing is kept."""
        share, where = self._share(job), self._where(job)
        if share is None:
            self._jobs.pop(job.job_id, None)
            return
        same = before if before is not None and before.where == where else None
        means, told = ({}, {}) if same is None else (same.means, same.told)
        means.pop(share, None)
        told.pop(share, None)
        if before is None and len(self._jobs) > len(jobs := self._state.jobs):
            self._jobs = {job_id: mine for job_id, mine in self._jobs.items() if job_id in jobs}
        self._jobs[job.job_id] = _Measured(
            where, job.attempt, job.allocation, share, means, told, step
        )

    def _share(self, job: Job) -> _PerGpu | None:
        """Return what each GPU of a job has; None: unsaid, or not the same for all."""
        shares, fair = job.allocation.shares, self._check.table.proportional
        if not any(share.cpus_milli or share.memory_mb for share in shares):
            return None
        each = [
            (
                share.cpus_milli // share.gpus or fair.cpus_milli,
                share.memory_mb // share.gpus or fair.memory_mb,
            )
            for share in shares
            if share.gpus
        ]
        return each[0] if each and all(other == each[0] for other in each) else None

    def _where(self, job: Job) -> _Where:
        """Return on which GPUs a job is, how many, and how far apart."""
        servers = self._state.cluster.servers
        nodes = {share.node: servers[share.node].configuration for share in job.allocation.shares}
        gpu_type = nodes[job.allocation.shares[0].node].gpu_type
        return gpu_type, job.allocation.gpus, level_of(job.allocation, nodes)

    def _has_company(self, job: Job) -> bool:
        """Say whether a job shares its GPUs, or may."""
        if job.allocation.sharing is _PACKED:
            return True
        return bool(self._state.cluster.deciding.beside(job.job_id, job.allocation.shares))

    def _compared(
        self, job: Job, mine: _Measured, at_us: int
    ) -> Sequence[facts.SensitivityCorrected]:
        """Hold shares to the table by the rate with a job's base.

        It is the share that the job has; where that is the base, all others that it has had.
        """
        share = mine.share
        base = self._base(job, mine)
        if base is None or mine.means[share].samples < SAMPLES_LEAST:
            return ()
        known = [each for each, mean in mine.means.items() if mean.samples >= SAMPLES_LEAST]
        held = known if share == base else [share]
        return [
            fact
            for each in held
            if each != base and (fact := self._held(job, mine, each, base, at_us)) is not None
        ]

    def _held(
        self, job: Job, mine: _Measured, share: _PerGpu, base: _PerGpu, at_us: int
    ) -> facts.SensitivityCorrected | None:
        """Hold a share to the table; return how it is corrected, if it is."""
        measured = self._speed(job, base) * mine.means[base].batch_s / mine.means[share].batch_s
        size = self._check.table.size_of(job.spec)
        assert size is not None, "the model is in the table"
        known = self._known(job, size, share)
        expected = self._speed(job, share) if known is None else known
        if not self._differs(measured, expected):
            return None
        told = mine.told.get(share)
        if told is not None and not self._differs(measured, told):
            return None  # another job has measured something else since
        mine.told[share] = measured = round(measured, _DIGITS)
        expected = round(expected, _DIGITS)
        model, job_id = job.spec.model, job.job_id
        return facts.SensitivityCorrected(
            at_us, job_id, model, size, *share, expected, measured, *base
        )

    def _base(self, job: Job, mine: _Measured) -> _PerGpu | None:
        """Return the share nearest to the proportional one by the configured table."""
        matrix, fair = self._check.table.of(job.spec), self._check.table.proportional
        assert matrix is not None, "the model is in the table"
        known = [share for share, mean in mine.means.items() if mean.samples >= SAMPLES_LEAST]

        def distance(share: _PerGpu) -> tuple[float, float, _PerGpu]:
            cpus, memory = share[0] / fair.cpus_milli - 1, share[1] / fair.memory_mb - 1
            return abs(matrix.speed(*share) - 1), abs(cpus) + abs(memory), share

        return min(known, key=distance, default=None)

    def _known(self, job: Job, size: int, share: _PerGpu) -> float | None:
        """Return what was measured with a share before, by whichever job."""
        for cell in self._state.corrections.get(job.spec.model, ()):
            if cell.gpus == size and cell.share == share:
                return cell.speed
        return None

    def _speed(self, job: Job, share: _PerGpu) -> float:
        """Return the speed by the table as it is corrected now."""
        model = job.spec.model
        cells = self._state.corrections.get(model, ())
        known = self._tables.get(model)
        if known is None or known[0] is not cells:
            known = self._tables[model] = cells, corrected(self._check.table, {model: cells})
        matrix = known[1].of(job.spec)
        assert matrix is not None, "the model is in the table"
        return matrix.speed(*share)

    def _differs(self, measured: float, expected: float) -> bool:
        return abs(measured - expected) > self._check.tolerance * expected


# Samples of a job that shares GPUs, or is between two speeds, say nothing of distance.

SAMPLES_COUNTED: Final = 4
"""So many samples after those that may tell of what was before, and their mean is told."""
_EXCLUSIVE = Sharing.exclusive  # members are slow to look up


def sample_reactions(
    state: State, rules: RoundRules
) -> dict[type[Event], Callable[[Any, Any], Sequence[Event]]]:
    """Return what follows from samples: corrections, and what is learnt."""
    check, learns = rules.table_check, rules.learns_tolerance
    if check is None and not learns:
        return {}
    shares = None if check is None else MeasuredShares(state, check)

    def sampled(fact: facts.ProfileSampled, before: None) -> Sequence[Event]:
        corrected = () if shares is None else shares.sampled(fact, before)
        return [*corrected, *(_learnt(fact, state) if learns else ())]

    return {facts.ProfileSampled: sampled}


def _learnt(fact: facts.ProfileSampled, state: State) -> Sequence[facts.ToleranceLearnt]:
    job = state.jobs[fact.job_id]
    pace = job.pace
    if not fact.batch_s or pace.seen != SAMPLES_BEFORE + SAMPLES_COUNTED:
        return ()
    batch_us = pace.batch_us_at(job.speed)
    if batch_us is None or not _tells_of_distance(job):
        return ()
    servers, shares = state.cluster.servers, job.held.shares
    nodes = {share.node: servers[share.node].configuration for share in shares}
    told = facts.ToleranceLearnt(
        *(fact.at_us, job.job_id, job.spec.model, nodes[shares[0].node].gpu_type),
        level_of(job.held, nodes),
        tuple(sorted([share.gpus for share in shares], reverse=True)),
        *(batch_us, SAMPLES_COUNTED, job.spec.batch_size),
    )
    return () if _is_known(told, state) else (told,)


def _tells_of_distance(job: Job) -> bool:
    """Say whether a job is a gang of a model that has its GPUs to itself."""
    spec, held = job.spec, job.held
    if not spec.model or spec.gpus < 2 or job.phase is not RUNNING or held.gpus != spec.gpus:
        return False
    return held.sharing is _EXCLUSIVE


def _is_known(told: facts.ToleranceLearnt, state: State) -> bool:
    """Say whether it is what the same job told last of such a placement."""
    key = (told.gpu_type, told.level, told.split, told.batch_size)
    return any(
        each.key == key and (each.job_id, each.last_us) == (told.job_id, told.batch_us)
        for each in state.learnt.get(told.model, ())
    )


def displacements(fact: Event, displaced: Sequence[Job]) -> Sequence[Event]:
    """Let jobs wait again whose GPUs another job was found on, or others hold.

    Where others hold CPUs or memory too, it says how many GPUs and CPUs, and how many MB; where
    another job keeps what it was to give up, on which servers.
    """
    if isinstance(fact, facts.AllocationLearned):
        because = replace(DISPLACED, beneficiaries=(fact.job_id,))
    elif isinstance(fact, facts.ReshapeRefused):
        where = ", ".join(share.node for share in fact.kept)
        because = replace(DISPLACED, beneficiaries=(fact.job_id,), detail=where)
    else:
        assert isinstance(fact, facts.GpusTaken), "nothing else displaces anybody"
        because = replace(DISPLACED, detail=fact.node)
        if fact.cpus_milli or fact.memory_mb:
            held = (fact.gpu_mask.bit_count(), fact.cpus_milli / 1000, fact.memory_mb)
            because = replace(because, scores=held)
    return [facts.AllocationChanged(fact.at_us, job.job_id, NOTHING, because) for job in displaced]


#     a fact ──▶ fold ──▶ react ──▶ facts that follow ──▶ fold ──▶ react ──▶ …
#                                       end of a step ──▶ due ──▶ …
#
# The live scheduler and a simulation emit these facts; `replay --verify` compares them.

JobEnd = facts.JobFinished | facts.JobFailed | facts.JobCancelled | facts.JobRetried
"""What follows once nothing of an attempt is left."""


@dataclass(frozen=True, slots=True)
class Before:
    """How a job was before a fact of its attempt was folded.

    `began_us` is when that attempt began, if it did; `is_displaced`: others had its GPUs already.
    """

    phase: JobPhase
    began_us: int | None
    is_displaced: bool = False


_ALONE = (
    facts.SchedulerStarted,
    facts.CheckpointDiscarded,
    facts.AllocationLearned,
    facts.ReshapeRefused,
)
WATCHED = frozenset((facts.AttemptLost, facts.LaunchFailed, facts.JobSuspended))
"""The kinds of which it must be known how their job was before."""


LAUNCHES_MOST = 5
"""So many launches in a row may fail; with the last of them the job does."""

LONG_US = 600_000_000
"""An attempt that lived so long was well: its loss counts as the first."""


class Losses:
    """How often in a row the attempts of a job were lost, each soon after it began."""

    def __init__(self) -> None:
        self._counts: dict[JobId, int] = {}

    def wait_us(self, job_id: JobId, lived_us: int, jobs: Mapping[JobId, Job]) -> int:
        """Count a loss; return how long the job is to wait."""
        before = self._counts.get(job_id, 0) if lived_us < LONG_US else 0
        self._counts = {known: count for known, count in self._counts.items() if known in jobs}
        self._counts[job_id] = before + 1
        return backoff_us(before) if before else 0


class Reactor:
    """What follows from facts under the rules of a term, from a state on.

    `gone_us` is when the processes of the attempt went whose GPUs are released with the next fact,
    where the backend told it; it is nothing to be known later. `kinds` are those from which
    anything can follow. How often attempts were lost in a row is counted from the term's start on.
    """

    def __init__(self, state: State, rules: RoundRules) -> None:
        self._state = state
        self._rules = rules
        self._losses = Losses()
        self._departures = Departures(state, rules)
        self.admission = Admission(state.cluster)
        self.timers = Timers(state, rules)
        self.gone_us: int | None = None
        self._reactions: dict[type[Event], Callable[[Any, Any], Sequence[Event]]] = {
            **dict.fromkeys((*_ALONE, *CLUSTER_CHANGES, *JOB_ENDS), _nothing),
            facts.NodeLost: self._node_lost,
            facts.JobSubmitted: self._submitted,
            facts.JobCancelRequested: self._cancel_requested,
            facts.JobHeld: self._held,
            facts.JobReleased: self._released,
            facts.JobResized: self._resized,
            facts.JobRetried: self._retried,
            facts.GpusReleased: self._gpus_released,
            facts.JobSuspended: self._suspended,
            facts.AttemptLost: self._attempt_lost,
            facts.LaunchFailed: self._launch_failed,
            **gang_reactions(state, rules),
            **sample_reactions(state, rules),
            **({facts.AttemptStarted: self._started} if rules.launches_wait else {}),
            **({facts.CheckpointSaved: self._departures.saved} if rules.bounds_departures else {}),
        }
        self.kinds = frozenset(self._reactions)

    def look(self, fact: Event) -> Before | None:
        """Return how a job is before a fact of a kind in `WATCHED` is folded."""
        if not isinstance(fact, facts.AttemptLost | facts.LaunchFailed | facts.JobSuspended):
            return None
        job = self._state.jobs.get(fact.job_id)
        if job is None:
            return None
        is_displaced = job.since_us is not None and not job.held.shares
        return Before(job.phase, job.attempt_began_us, is_displaced)

    def react(self, fact: Event, result: FoldResult, before: Before | None) -> Sequence[Event]:
        """Return what follows from a fact that has just been folded, with its result.

        Each is to be folded, with all that follows from it, before the next; one that does not
        hold any more by then (`holds`) is left out.
        """
        kind = type(fact)
        self.timers.note(kind)
        if result.displaced:
            return displacements(fact, result.displaced)
        if result.stranded:  # they needed this job to end otherwise
            return [
                facts.JobCancelled(fact.at_us, job_id, DEPENDENCY) for job_id in result.stranded
            ]
        return self._reactions[kind](fact, before)

    def due(self, now_us: int) -> Due | None:
        """Take out what is due next at the end of a step at an instant; None: nothing is."""
        return self.timers.due(now_us)

    def may_retry(self, job: Job) -> bool:
        """Say whether an attempt may follow a failure; in a trace it is the end."""
        return job.spec.retries > 0 and self._rules.reacts_as_live

    def unused_us(self, job: Job, at_us: int, exit_code: int | None, ended_us: int | None) -> int:
        """Return for how long an attempt that is retried had GPUs after its end.

        A scheduler that was away sees the end later, and counts all the time up to then. Of a job
        that ends, its end says when that was.
        """
        failures = job.failures + (job.phase is not SUSPENDING)
        is_last = exit_code == 0 or bool(job.end_cause) or failures > job.spec.retries
        if ended_us is None or job.since_us is None or is_last or not self.may_retry(job):
            return 0
        return max(0, at_us - max(ended_us, job.since_us))

    def end_of(self, job: Job, at_us: int, exit_code: int | None, ended_us: int | None) -> JobEnd:
        """Return how a job ends that holds nothing now (or lets go with this very fact).

        One that failed by itself and has retries left waits for its next attempt instead.

        Args:
            job: one whose attempt is over, if it had one.
            at_us: the instant.
            exit_code: how its processes ended; None: nobody saw it, or there were none.
            ended_us: when they went, where that was seen later.
        """
        # Logs of simulations say it of jobs that finished, and of no others.
        gone_us = ended_us if self._rules.is_live else None
        if job.end_cause == TIMEOUT:
            return facts.JobFailed(at_us, job.job_id, TIMEOUT, exit_code, gone_us)
        if job.end_cause:
            return facts.JobCancelled(at_us, job.job_id, job.end_cause, gone_us)
        if exit_code == 0:
            return facts.JobFinished(at_us, job.job_id, ended_us)
        if self.may_retry(job) and job.failures <= job.spec.retries:
            return facts.JobRetried(at_us, job.job_id, job.attempt)
        return facts.JobFailed(at_us, job.job_id, EXITED, exit_code, gone_us)

    def discards(self, seen: facts.AttemptStarted) -> list[facts.CheckpointDiscarded]:
        """Return what precedes the start of an attempt: lost checkpoints go.

        They could not be brought to it, so the job goes on without them.
        """
        job = self._state.jobs.get(seen.job_id)
        if job is None or not self._is_live_attempt(job, seen):
            return []
        return [
            facts.CheckpointDiscarded(
                seen.at_us, job.job_id, one.attempt, one.nodes, one.step, LOST
            )
            for one in (job.checkpoints or ())[: job.out_of_reach]
        ]

    def completed(self, seen: facts.AttemptStarted) -> facts.AttemptStarted:
        """Return the start of an attempt with what the core adds to it.

        That is whether it waited, and what its checkpoints depend on; of one that is not live,
        nothing. When it began counts only where it may have waited.
        """
        job = self._state.jobs.get(seen.job_id)
        if job is None or not self._is_live_attempt(job, seen):
            return seen
        keeps_split = job.spec.gpus > 1 and not job.spec.split_may_change
        stay = self._rules.checkpoints_stay
        waited = self._rules.launches_wait
        seen = seen if waited else replace(seen, started_us=None)
        return replace(seen, keeps_split=keeps_split, checkpoints_stay=stay, waited=waited)

    def unstarted(self, seen: facts.LaunchFailed) -> facts.LaunchFailed:
        """Return the end of an attempt that never started, with whether it waited."""
        return replace(seen, waited=True) if self._rules.launches_wait else seen

    def _is_live_attempt(self, job: Job, seen: facts.AttemptStarted) -> bool:
        is_current = job.attempt == seen.attempt and job.since_us is not None
        return self._rules.is_live and is_current

    def _started(self, fact: facts.AttemptStarted, before: None) -> Sequence[Event]:
        """Note when the time limit is over of a job that has only waited so far."""
        self.timers.began(self._state.jobs[fact.job_id])
        return ()

    def _submitted(self, fact: facts.JobSubmitted, before: None) -> Sequence[Event]:
        """End a job at once that can never run; hold a task that has no turn."""
        job = self._state.jobs[fact.job_id]
        answer = self._refusal(job, fact.at_us)
        if answer is not None:
            return (answer,)
        if job.spec.at_once is None:
            return ()
        self.timers.arrays.add(job)
        return self._without_turn(job, fact.at_us)

    def _refusal(self, job: Job, at_us: int) -> facts.JobRejected | facts.JobCancelled | None:
        """Return how a new job that can never run ends at once; None if it may wait."""
        state, job_id = self._state, job.job_id
        refusal = self.admission.refusal(job.demand, job.spec.user, state.queue_of(job))
        if refusal is not None:
            return facts.JobRejected(
                at_us, job_id, refusal.reason, refusal.needed, refusal.most, refusal.detail
            )
        deadline_us = job.spec.deadline_us
        if deadline_us is not None and deadline_us <= at_us:
            detail = "its deadline is not after its submission"
            return facts.JobRejected(at_us, job_id, Reason.infeasible, 0, 0, detail)
        if job.blocked_by:
            pending = sum(1 for other in job.spec.depends_on if other.job_id in state.jobs)
            if job.blocked_by > pending:
                return facts.JobCancelled(at_us, job_id, DEPENDENCY)
        return None

    def _without_turn(self, job: Job, at_us: int) -> Sequence[Event]:
        """Hold a task of an array of which enough are under way."""
        if self.timers.arrays.is_full(job, self._state.jobs):
            return (facts.JobHeld(at_us, job.job_id, ARRAY),)
        return ()

    def _cancel_requested(self, fact: facts.JobCancelRequested, before: None) -> Sequence[Event]:
        """End a job that holds nothing."""
        job = self._state.jobs[fact.job_id]
        return (self.end_of(job, fact.at_us, None, None),) if job.since_us is None else ()

    def _released(self, fact: facts.JobReleased, before: None) -> Sequence[Event]:
        """Hold a task again that somebody released when it is not its turn."""
        job = self._state.jobs[fact.job_id]
        if class_of(fact) is FactClass.derived or job.since_us is not None:
            return ()
        return self._without_turn(job, fact.at_us)

    def _held(self, fact: facts.JobHeld, before: None) -> Sequence[Event]:
        """Note when a job that backs off comes back."""
        self.timers.returns.add(self._state.jobs[fact.job_id])
        return ()

    def _resized(self, fact: facts.JobResized, before: None) -> Sequence[Event]:
        """Let a job leave GPUs that are not as many as its owner wants from now on.

        It is then placed as any other job that waits. What a plan resizes it places itself.
        """
        job, instant = self._state.jobs[fact.job_id], self._rules.instant
        if class_of(fact) is FactClass.decided or job.allocation.gpus == fact.gpus:
            return ()
        if not job.allocation.shares:
            return ()
        return (facts.AllocationChanged(fact.at_us, job.job_id, NOTHING, RESIZED, instant),)

    def _retried(self, fact: facts.JobRetried, before: None) -> Sequence[Event]:
        """Let a job that failed by itself wait for its next attempt."""
        job = self._state.jobs[fact.job_id]
        if job.is_on_hold:
            return ()
        until_us = fact.at_us + backoff_us(job.failures)
        return (facts.JobHeld(fact.at_us, job.job_id, BACKING_OFF, until_us),)

    def _gpus_released(self, fact: facts.GpusReleased, before: None) -> Sequence[Event]:
        """End a job whose attempt had ended, or that left too often without progress."""
        job, gone_us = self._state.jobs[fact.job_id], self.gone_us
        self.gone_us = None
        if job.phase is not ENDING:
            return self._departures.released(job, fact.at_us)
        return (self.end_of(job, fact.at_us, job.exit_code, gone_us),)

    def _suspended(self, fact: facts.JobSuspended, before: Before) -> Sequence[Event]:
        """Let a job wait that left though nobody asked it to.

        So a job that always leaves at once is not launched again as fast as the machine can.
        """
        if before.phase is RUNNING:
            return self._departures.left(fact, before.began_us)
        return self._departures.ended(fact, before.began_us) if fact.exit_code == 0 else ()

    def _attempt_lost(self, fact: facts.AttemptLost, before: Before) -> Sequence[Event]:
        """End a job that was about to; one that is lost again and again waits.

        A first loss is not its own fault, and that it was displaced never is.
        """
        job = self._state.jobs[fact.job_id]
        if before.phase is ENDING:
            return (self.end_of(job, fact.at_us, job.exit_code, None),)
        counts = self._rules.reacts_as_live and not before.is_displaced
        waits_us = self._loss_us(job, fact.at_us, before) if counts else 0
        if not waits_us or job.is_on_hold:
            return ()
        return (facts.JobHeld(fact.at_us, job.job_id, BACKING_OFF, fact.at_us + waits_us),)

    def _launch_failed(self, fact: facts.LaunchFailed, before: Before) -> Sequence[Event]:
        """Let a job wait before its next try; with too many of them, it fails.

        One whose checkpoint could not be brought is tried however often.
        """
        job, at_us = self._state.jobs[fact.job_id], fact.at_us
        if before.phase is ENDING:
            return (self.end_of(job, at_us, job.exit_code, None),)
        if before.phase is not LAUNCHING:
            return ()
        if fact.retryable and fact.checkpoint_on:
            waits_us = max(backoff_us(1), self._loss_us(job, at_us, before))
            return (facts.JobHeld(at_us, job.job_id, BACKING_OFF, at_us + waits_us),)
        if fact.retryable and job.launches_failed < LAUNCHES_MOST:
            return (facts.JobHeld(at_us, job.job_id, BACKING_OFF),)
        return (facts.JobFailed(at_us, job.job_id, f"launch: {fact.cause}"),)

    def _loss_us(self, job: Job, at_us: int, before: Before) -> int:
        """Count the loss of an attempt; return how long its job is to wait."""
        lived_us = 0 if before.began_us is None else at_us - before.began_us
        return self._losses.wait_us(job.job_id, lived_us, self._state.jobs)

    def _node_lost(self, fact: facts.NodeLost, before: None) -> Sequence[Event]:
        """Take back what was promised on a lost server.

        That is where waiting jobs were to start and running ones to move, none of it launched yet.
        """
        return [
            facts.AllocationChanged(fact.at_us, job_id, NOTHING, NODE_LOST)
            for job_id, job in self._state.jobs.items()
            if job.phase in PROMISED
            and any(share.node == fact.node for share in job.allocation.shares)
        ]


def holds(fact: Event, state: State) -> bool:
    """Say whether a derived fact still holds, after those before it.

    A job that needed several of those that end is gone with the first of them.
    """
    return not isinstance(fact, facts.JobCancelled) or fact.job_id in state.jobs


def orders_end(fact: Event) -> bool:
    """Say whether the backend is to end the job of a derived fact.

    Of the others somebody has asked it, or nothing of the job is left.
    """
    if isinstance(fact, facts.JobCancelled):
        return fact.cause == DEPENDENCY
    return isinstance(fact, facts.JobRejected | facts.TimeLimitReached)


def _nothing(fact: Event, before: None) -> Sequence[Event]:
    """Let nothing follow but what is due at the end of the step."""
    return ()
