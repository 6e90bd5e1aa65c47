"""The jobs of the simulated world: how much work each has left, and what it is doing.

The world keeps its own books. What the scheduler knows comes to it as observations only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from shunter.backends.simulated.lease import Lease, Progress, RoundEnds, StepRate
from shunter.core import NEVER_US, Gpu, Launch, ReshapeAttempt, Resume, gpus_of
from shunter.core.speeds import SpeedModel
from shunter.events import Allocation, JobId, JobSpec, NodeName, SuspendMode, fact, record, replace

# What launching, leaving and moving cost: time in which GPUs are held idle.

MICROSECONDS = 1_000_000


@fact
class Costs:
    """Durations in microseconds.

    `start_us`: a first launch. `suspend_us`: saving a checkpoint on the way out. `resume_us`: a
    launch from a checkpoint on the way back in. `migrate_us`: the same on other GPUs than before,
    instead; None: as `resume_us`. `checkpoint_us` comes on top of the last three: it is how long a
    checkpoint takes to write or to read; `by_model` says so for jobs of some models, instead.
    """

    start_us: int = 0
    suspend_us: int = 0
    resume_us: int = 0
    migrate_us: int | None = None
    checkpoint_us: int = 0
    by_model: tuple[tuple[str, int], ...] = ()

    def back_us(self, *, elsewhere: bool) -> int:
        """Return what a later launch costs without its checkpoint, maybe on other GPUs."""
        if elsewhere and self.migrate_us is not None:
            return self.migrate_us
        return self.resume_us

    @property
    def are_none(self) -> bool:
        """Whether nothing takes any time."""
        fixed = self.start_us or self.suspend_us or self.resume_us or self.migrate_us
        return not (fixed or self.checkpoint_us or any(us for _, us in self.by_model))


def transfer_us(size_mb: float, bandwidth_mb_s: float) -> int:
    """Return how long so much data takes, up to a whole microsecond.

    Both numbers count as the decimals that were written, so that 0.3 MB at 0.1 MB/s are 3 s.
    """
    assert size_mb >= 0
    assert bandwidth_mb_s > 0
    size, bandwidth = Fraction(repr(size_mb)), Fraction(repr(bandwidth_mb_s))
    return -(-size * MICROSECONDS // bandwidth)


def transfers_us(
    sizes_mb: Mapping[str, float], bandwidth_mb_s: float
) -> tuple[tuple[str, int], ...]:
    """Return how long the checkpoint of each model takes, in order of their names."""
    return tuple(
        (model, transfer_us(size_mb, bandwidth_mb_s)) for model, size_mb in sorted(sizes_mb.items())
    )


NO_COSTS = Costs()


@dataclass(slots=True)
class GpuTenants:
    """The jobs on each GPU, and on each server, in order of their launches there.

    Servers are kept only if neighbours slow each other down (`has_neighbours`).
    """

    has_neighbours: bool = False
    by_gpu: dict[Gpu, dict[JobId, None]] = field(default_factory=dict)
    by_node: dict[NodeName, dict[JobId, None]] = field(default_factory=dict)

    def enter(self, job_id: JobId, where: Allocation) -> None:
        """Put a job on its GPUs."""
        for share in where.shares:
            for gpu in gpus_of(share):
                self.by_gpu.setdefault(gpu, {})[job_id] = None
            if self.has_neighbours and share.gpu_mask:
                self.by_node.setdefault(share.node, {})[job_id] = None

    def leave(self, job_id: JobId, where: Allocation) -> None:
        """Take a job off its GPUs."""
        for share in where.shares:
            for gpu in gpus_of(share):
                del self.by_gpu[gpu][job_id]
            if self.has_neighbours and share.gpu_mask:
                del self.by_node[share.node][job_id]

    def beside(self, job_id: JobId, where: Allocation) -> list[JobId]:
        """Return who else is on the GPUs of a job, each once, oldest launch first."""
        found: dict[JobId, None] = {}
        for share in where.shares:
            for gpu in gpus_of(share):
                there = self.by_gpu.get(gpu, {})
                if len(there) > 1 or job_id not in there:
                    found.update(there)
        found.pop(job_id, None)
        return list(found)

    def around(self, job_id: JobId, where: Allocation) -> list[JobId]:
        """Return who has other GPUs of a job's servers, each once, oldest launch first."""
        if not self.has_neighbours:
            return []
        found: dict[JobId, None] = {}
        for share in where.shares:
            if share.gpu_mask:
                found.update(self.by_node.get(share.node, {}))
        for other in (job_id, *self.beside(job_id, where)):
            found.pop(other, None)
        return list(found)


KILLED = 143  # what a shell reports for a process ended by SIGTERM
FAILED = 1
_STEADY = StepRate(1.0, 1, 1)  # where all time at work is work
LOSING = frozenset(mode for mode in SuspendMode if mode.loses_work)
EXIT_CODES = {"finished": 0, "failed": FAILED, "cancelled": KILLED}


class Arrival(Protocol):
    """A job of a trace: what it asks for, when, how long it runs, and how it ends."""

    job_id: JobId
    submit_us: int
    spec: JobSpec
    duration_us: int

    @property
    def ends(self) -> str:
        """How it ends: finished, failed or cancelled."""


@record
class Task:
    """One job of the world, `left` units from its end; `step_rate` is at base speed.

    `ordinal` is its place in the trace, `attempt` the last one begun and `last` its GPUs (None:
    there was none), `moves_from` where it was when it was told to move. `failures` attempts failed.
    `weight` is its part of turns. `now` is its `spec` with the size that its gang has now.
    """

    ordinal: int
    spec: JobSpec
    now: JobSpec
    step_rate: StepRate
    left: int
    exit_code: int
    attempt: int = 0
    moves_from: tuple[NodeName, ...] = ()
    last: Allocation | None = None
    failures: int = 0
    weight: float = 1.0


@record
class Run:
    """One attempt of a task.

    Its job began to make progress at `began_us`, with `left` units to do, and has `saved` units to
    do by its last checkpoint. The work that its task has left was counted at `works_from_us`. All
    is done at `end_us` (None: never, or not foreseen). The scheduler has counted `taken_us` of work
    up to `paced_us`, when its speed changed last, if it was `told` that the job works at all. One
    that `is_stopped` holds its GPUs and does nothing; so it was `stops` times.
    """

    task: Task
    attempt: int
    allocation: Allocation
    step_rate: StepRate
    began_us: int
    works_from_us: int
    left: int
    saved: int
    end_us: int | None
    paced_us: int = 0
    taken_us: int = 0
    told: bool = False
    is_stopped: bool = False
    stops: int = 0

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """The servers it runs on."""
        return tuple([share.node for share in self.allocation.shares])

    def is_over(self, now_us: int) -> bool:
        """Say whether it has done all its work by now."""
        return self.end_us is not None and self.end_us <= now_us


@fact
class Leaving:
    """What comes of an order to leave.

    The GPUs are free at `free_us`; `lost_us` of the time at work did not count. The job `is_done`
    if it had done all its work before anybody saw it.
    """

    free_us: int
    lost_us: int
    is_done: bool


class Work:
    """All jobs that have arrived and not ended, and the attempts of those that run."""

    __slots__ = (
        "_checkpoints_us",
        "_costs",
        "_fixed",
        "_in_steps",
        "_is_free",
        "_is_plain",
        "_is_steady",
        "_lease",
        "_retries",
        "_speeds",
        "gpu_tenants",
        "runs",
        "tasks",
    )

    def __init__(
        self,
        costs: Costs,
        lease: Lease,
        speeds: SpeedModel | None,
        *,
        is_sampled: bool = False,
        retries: bool = False,
    ) -> None:
        self._costs = costs
        self._is_free = costs.are_none
        self._checkpoints_us = dict(costs.by_model)
        self._lease = lease
        self._speeds = speeds
        self._fixed = lease.round_ends is RoundEnds.fixed
        self._in_steps = lease.progress is Progress.whole_steps
        self._is_plain = speeds is None and self._fixed and lease.is_exact
        self._is_steady = self._is_plain and not is_sampled
        self._retries = retries
        self.gpu_tenants = None if speeds is None else GpuTenants(speeds.knows_neighbours)
        self.tasks: dict[JobId, Task] = {}
        self.runs: dict[JobId, Run] = {}

    def arrive(self, job: Arrival, ordinal: int) -> None:
        """Add a job with all its work: in steps where they count, or in microseconds."""
        spec, units = job.spec, job.duration_us
        if self._in_steps and spec.total_steps:
            units = spec.total_steps
        step_rate = _STEADY if self._is_steady else StepRate(1.0, units, job.duration_us)
        self.tasks[job.job_id] = Task(ordinal, spec, spec, step_rate, units, EXIT_CODES[job.ends])

    def begin(self, task: Task, order: Launch | Resume, now_us: int) -> Run:
        """Begin an attempt, and foresee its end where that depends on nobody else."""
        attempt, allocation = order.attempt, order.allocation
        from_us = now_us if self._is_free else now_us + self._cost_us(task, order)
        left, step_rate = task.left, task.step_rate
        task.attempt, task.last, task.weight = attempt, allocation, order.spec.weight
        task.now = task.spec if order.spec.gpus == task.spec.gpus else order.spec
        assert self._speeds is not None or task.now is task.spec, "nobody knows its speed"
        end_us: int | None = None
        if self._is_plain:
            end_us = from_us + left
        else:
            if self._speeds is not None:
                step_rate = self._step_rate(task, order.job_id, allocation)
            if self._fixed:
                end_us = self._lease.end_us(from_us, left, step_rate)
        run = Run(
            task, attempt, allocation, step_rate, from_us, from_us, left, left, end_us, from_us
        )
        self.runs[order.job_id] = run
        if self.gpu_tenants is not None:
            self.gpu_tenants.enter(order.job_id, allocation)
        return run

    def end(self, job_id: JobId) -> Run:
        """Take an attempt out."""
        run = self.runs.pop(job_id)
        if self.gpu_tenants is not None and not run.is_stopped:
            self.gpu_tenants.leave(job_id, run.allocation)
        return run

    def stop(self, job_id: JobId, now_us: int) -> None:
        """Let an attempt keep its GPUs and do nothing on them."""
        run = self.end(job_id)
        task = run.task
        self.save(task, run, now_us)
        task.left -= min(task.left, self._run_by(run, now_us))
        taken_us, paced_us = _taken_us(run, now_us), max(now_us, run.paced_us)
        self.runs[job_id] = replace(
            run,
            works_from_us=NEVER_US,
            end_us=None,
            taken_us=taken_us,
            paced_us=paced_us,
            is_stopped=True,
            stops=run.stops + 1,
        )

    def go_on(self, job_id: JobId, now_us: int, where: Allocation | None = None) -> Run:
        """Let a stopped attempt work again, maybe on other GPUs; return its new run."""
        run = self.runs[job_id]
        if where is not None:
            run.allocation = where
        task, from_us = run.task, max(now_us, run.began_us)
        if self.gpu_tenants is not None:
            self.gpu_tenants.enter(job_id, run.allocation)
        step_rate = task.step_rate
        if self._speeds is not None:
            step_rate = self._step_rate(task, job_id, run.allocation)
        anew = replace(
            run,
            step_rate=step_rate,
            works_from_us=from_us,
            end_us=self._lease.end_us(from_us, task.left, step_rate),
            paced_us=from_us,
            is_stopped=False,
        )
        self.runs[job_id] = anew
        return anew

    def reshape(self, order: ReshapeAttempt) -> bool:
        """Let an attempt have other CPUs and memory; say whether it works with them now."""
        run = self.runs.get(order.job_id)
        if run is None or run.attempt != order.attempt:
            return False
        run.allocation = run.task.last = order.allocation
        return not run.is_stopped

    def left(self, run: Run, now_us: int) -> int:
        """Return the units that a run has left now."""
        return run.task.left - min(run.task.left, self._run_by(run, now_us))

    def batch_s(self, job_id: JobId, run: Run) -> float | None:
        """Return the seconds of a mini-batch now; None: nobody knows, or it never ends."""
        spec, step_rate = run.task.now, run.step_rate
        rate = step_rate.rate
        if rate is None and spec.total_steps:
            rate = spec.total_steps * step_rate.speed * 1e6 / max(1, step_rate.duration_us)
        elif rate is None and self._speeds is not None:
            rate = self._speeds.rate(spec, *self._surroundings(job_id, run.allocation))
        return 1.0 / rate if rate else None

    def forget(self, job_id: JobId, run: Run, now_us: int) -> None:
        """Forget the work of a job whose attempt has ended, unless it may be tried again.

        Then it has to do again what its last checkpoint does not hold.
        """
        task = run.task
        task.failures += 1
        if self._retries and task.exit_code == FAILED and task.failures <= task.spec.retries:
            self.save(task, run, now_us)
            task.left = run.saved
        else:
            del self.tasks[job_id]

    def partners(self, job_id: JobId, where: Allocation) -> list[JobId]:
        """Return who shares GPUs with a job."""
        return [] if self.gpu_tenants is None else self.gpu_tenants.beside(job_id, where)

    def slowed_by(self, job_id: JobId, where: Allocation) -> list[JobId]:
        """Return whose speed may hang on a job: its partners and its neighbours."""
        if self.gpu_tenants is None:
            return []
        return self.gpu_tenants.beside(job_id, where) + self.gpu_tenants.around(job_id, where)

    def paced_anew(self, job_id: JobId, now_us: int) -> Run:
        """Give a job the speed it has beside its partners of now; return its new run.

        Work up to now counts at the old speed. A step under way is begun again.
        """
        run = self.runs[job_id]
        task, anew_rate = run.task, self._step_rate(run.task, job_id, run.allocation)
        left, from_us, step_rate = task.left, run.works_from_us, run.step_rate
        speed = anew_rate.speed
        if anew_rate != step_rate:
            self.save(task, run, now_us)
            left = task.left = left - min(left, self._run_by(run, now_us))
            from_us, step_rate = max(now_us, from_us), anew_rate
        anew = replace(run, step_rate=step_rate, works_from_us=from_us)
        if speed != run.step_rate.speed and run.told:
            anew.taken_us, anew.paced_us = _taken_us(run, now_us), now_us
        anew.end_us = self._lease.end_us(from_us, left, step_rate) if self._fixed else None
        self.runs[job_id] = anew
        return anew

    def _step_rate(self, task: Task, job_id: JobId, where: Allocation) -> StepRate:
        """Return how fast a job is on these GPUs beside those who are there now."""
        speeds, spec, base = self._speeds, task.now, task.step_rate
        assert speeds is not None, "without speeds nobody has another step rate"
        there = self._surroundings(job_id, where)
        speed = speeds.speed(spec, *there) * speeds.speed_of_size(task.spec, spec)
        rate = None if base.is_continuous else speeds.rate(spec, *there)
        return StepRate(speed, base.units, base.duration_us, rate)

    def _surroundings(
        self, job_id: JobId, where: Allocation
    ) -> tuple[Allocation, list[JobSpec], list[Allocation]]:
        """Return the GPUs of a job, who shares them, and where its neighbours are."""
        tenants = self.gpu_tenants
        assert tenants is not None, "without speeds nobody is slowed down"
        partners = [self.tasks[other].now for other in tenants.beside(job_id, where)]
        around = [self.runs[other].allocation for other in tenants.around(job_id, where)]
        return where, partners, around

    def leave(self, job_id: JobId, now_us: int, *, moves: bool) -> Leaving:
        """Stop an attempt; its mode says if its work is saved or partly lost."""
        run = self.end(job_id)
        task = run.task
        works = now_us >= run.began_us
        counted = self._counted(run, now_us)
        is_done = counted >= task.left and (works or counted > 0)
        task.moves_from = run.nodes if moves else ()
        cost_us = 0
        if is_done or task.spec.suspend_mode not in LOSING:
            task.left -= min(task.left, counted)
            if works and not is_done:
                cost_us = self._costs.suspend_us + self._checkpoint_us(task)
            lost_us = 0 if self._is_plain else _lost_us(task, run, now_us)
        else:
            self.save(task, run, now_us)
            task.left = run.saved
            lost_us = _lost_us(task, run, now_us)
        return Leaving(now_us + cost_us, lost_us, is_done)

    def lose(self, job_id: JobId, now_us: int) -> int:
        """Stop an attempt whose server died; return the work lost with it."""
        run = self.end(job_id)
        task = run.task
        self.save(task, run, now_us)
        task.left = run.saved
        return _lost_us(task, run, now_us)

    def save(self, task: Task, run: Run, now_us: int) -> None:
        """Note what the last checkpoint up to now holds; they come at a fixed interval."""
        every_us = task.spec.checkpoint_interval_us
        if not every_us:
            return
        last_us = now_us - (now_us - run.began_us) % every_us
        if last_us >= run.works_from_us:
            run.saved = task.left - min(task.left, self._run_by(run, last_us))

    def really_ended_us(self, run: Run, seen_us: int) -> int | None:
        """Return when a job ended, where that was before its end is seen."""
        if run.end_us is None or run.end_us >= seen_us or not self._lease.tells_true_ends:
            return None
        return run.end_us

    def _counted(self, run: Run, now_us: int) -> int:
        if self._is_plain:
            return max(0, now_us - run.works_from_us)
        if self._fixed:
            return self._lease.done_by(run.works_from_us, now_us, run.step_rate)
        return self._run_by(run, now_us)

    def _run_by(self, run: Run, until_us: int) -> int:
        if self._fixed:
            return self._lease.run_by(run.works_from_us, until_us, run.step_rate)
        return run.step_rate.done_in(max(0, until_us - run.works_from_us))

    def _cost_us(self, task: Task, order: Launch | Resume) -> int:
        if order.attempt == 1:
            return self._costs.start_us
        last = task.last
        is_elsewhere = last is not None and not order.allocation.is_on_gpus_of(last)
        fixed_us = self._costs.back_us(elsewhere=is_elsewhere or bool(task.moves_from))
        return fixed_us + self._checkpoint_us(task)

    def _checkpoint_us(self, task: Task) -> int:
        """Return how long a job's checkpoint takes to write, or to read."""
        return self._checkpoints_us.get(task.spec.model, self._costs.checkpoint_us)


def _lost_us(task: Task, run: Run, now_us: int) -> int:
    """Return the time at work that did not count, as work at base speed.

    The scheduler takes all the time since the attempt began to work for work.
    """
    return max(
        0,
        _taken_us(run, now_us) - run.step_rate.work_us(run.left) + run.step_rate.work_us(task.left),
    )


def _taken_us(run: Run, now_us: int) -> int:
    """Return the work that the scheduler counts, from what it was told of the speed."""
    duration_us = run.task.step_rate.duration_us
    if run.is_stopped:
        return run.taken_us
    works = StepRate(run.step_rate.speed, duration_us, duration_us)
    return run.taken_us + works.done_in(max(0, now_us - run.paced_us))
