"""What a job measures of itself with each share it has, held to the table of sensitivity.

A sample says how long a job's mini-batches take. With each CPUs and memory that the job has had on
the same kind of GPUs, as far apart, the mean of its samples counts, but for the first one after a
change, which may reach back before it. Two such means tell how much faster the job is with the one
share than with the other: with the share it has now, or where that is the base, with each that it
had before. The *base* is the share of its own whose speed in the table as it was configured is
nearest to that of the proportional share; there the table is believed. So no correction rests on
one that rests on it. What a job measures with others on its GPUs says nothing.
"""

from collections.abc import Sequence

from shunter.core.performance.correction import MeasuredCell, TableCheck, corrected
from shunter.core.performance.sensitivity import SensitivityTable
from shunter.core.performance.speed_model import level_of
from shunter.core.state import RUNNING, Job, State
from shunter.events.facts.profiles import ProfileSampled, SensitivityCorrected
from shunter.events.values.allocation import Allocation, Sharing
from shunter.events.values.fact import record
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Level

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

    __slots__ = ("_check", "_jobs", "_state", "_tables")

    def __init__(self, state: State, check: TableCheck) -> None:
        self._state = state
        self._check = check
        self._jobs: dict[JobId, _Measured] = {}
        self._tables: dict[str, tuple[tuple[MeasuredCell, ...], SensitivityTable]] = {}

    def sampled(self, fact: ProfileSampled, before: None) -> Sequence[SensitivityCorrected]:
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
        if before is None and len(self._jobs) > len(self._state.jobs):
            self._forget_ended()
        self._jobs[job.job_id] = _Measured(
            where, job.attempt, job.allocation, share, means, told, step
        )

    def _forget_ended(self) -> None:
        jobs = self._state.jobs
        self._jobs = {job_id: mine for job_id, mine in self._jobs.items() if job_id in jobs}

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

    def _compared(self, job: Job, mine: _Measured, at_us: int) -> Sequence[SensitivityCorrected]:
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
    ) -> SensitivityCorrected | None:
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
        return SensitivityCorrected(at_us, job_id, model, size, *share, expected, measured, *base)

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
