"""What the policy knows of jobs: measured rates, its memory, and the requests made of both."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from shunter.core import ENDING, SUSPENDING, Job, View
from shunter.core.planning import Packing, ProposalMemory, RoomMemory
from shunter.core.speeds import JobKind, Pair, ThroughputTable
from shunter.events import DERIVED, GpuType, JobId, Reason, Sharing, Wait, fact, facts
from shunter.policies.gavel.mechanism import Demands, Fractions, Gang, JobRequest, Ledger
from shunter.policies.gavel.objectives import FinishTimes

# Rates by GPU type: measured while the job ran (a moving average), else by the table, else unknown.
# A job measured on some types only, without a table, has their average on the others. Measured
# parts of pairs go before the table, for all jobs of the two kinds.

WEIGHT: Final = 0.25
"""Of a new sample in the average of a job on a type."""

NOTABLE: Final = 0.1
"""A relative change of an average since fractions were computed that asks for new ones."""


Together = tuple[str, ...]
"""A GPU type, a model, the model beside it, and the GPUs of each of the two."""


@dataclass(slots=True)
class Measured:
    """Steps a second by job and GPU type, and how far each job was.

    `used` are the averages with which fractions were computed last. `kept` and `kept_used` are the
    same of the parts that kinds keep beside others.
    """

    rates: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)
    used: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)
    steps: dict[JobId, int] = field(default_factory=dict)
    kept: dict[Together, float] = field(default_factory=dict)
    kept_used: dict[Together, float] = field(default_factory=dict)

    def sample(self, job_id: JobId, gpu_type: GpuType, batch_s: float) -> bool:
        """Take a sample in; say whether the job's pace is notably another one."""
        known = self.rates.setdefault(job_id, {})
        known[gpu_type] = _averaged(1.0 / batch_s, known.get(gpu_type))
        used = self.used.setdefault(job_id, {}).get(gpu_type)
        if used is not None and abs(known[gpu_type] - used) <= NOTABLE * used:
            return False
        self.used[job_id][gpu_type] = known[gpu_type]
        return True

    def sample_beside(self, together: "Together", part: float, before: float) -> bool:
        """Take in the part that a kind keeps; say whether it is notably another.

        `before` is the part that counts where none was measured.
        """
        self.kept[together] = _averaged(min(1.0, part), self.kept.get(together))
        used = self.kept_used.get(together, before)
        if abs(self.kept[together] - used) <= NOTABLE * used:
            return False
        self.kept_used[together] = self.kept[together]
        return True

    def forget_rates(self, job_id: JobId) -> None:
        """Drop how fast a job was."""
        for notes in (self.rates, self.used):
            notes.pop(job_id, None)

    def forget(self, job_id: JobId) -> None:
        """Drop a job that has ended."""
        self.forget_rates(job_id)
        self.steps.pop(job_id, None)


@dataclass(frozen=True, slots=True)
class Rates:
    """Looks up how fast jobs are, on some GPU types with so many GPUs each."""

    measured: Measured
    table: ThroughputTable | None
    room: Mapping[GpuType, int]
    guessed: Mapping[JobId, Mapping[GpuType, float]] = field(default_factory=dict)
    found: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)

    def of(self, job: Job) -> dict[GpuType, float]:
        """Return steps a second by type; 0 where it cannot run, 1 if nobody knows.

        What was `found` once is taken again, until whoever keeps it drops it.
        """
        rates = self.found.get(job.job_id)
        if rates is None:
            rates = self.found[job.job_id] = self._looked_up(job)
        return rates

    def _looked_up(self, job: Job) -> dict[GpuType, float]:
        spec = job.spec
        fits = [
            name
            for name, gpus in self.room.items()
            if gpus >= spec.gpus and (not spec.gpu_types or name in spec.gpu_types)
        ]
        known = self._known(job.job_id, self.kind_of(job), fits)
        known = {**self.guessed.get(job.job_id, {}), **known}
        tried = [rate for rate in known.values() if rate > 0]
        usual = sum(tried) / len(tried) if tried else 1.0
        return {name: known.get(name, usual) if name in fits else 0.0 for name in self.room}

    def kind_of(self, job: Job) -> JobKind | None:
        """Return what the table knows a job by, None if it does not."""
        return None if self.table is None else self.table.kind_of(job.spec)

    def beside(self, job: Job, other: Job, gpu_type: GpuType, rate: float) -> bool:
        """Take in how fast a job is beside another; say whether targets are to follow.

        A pair that the table does not know, or knows not to fit, is left out.
        """
        kind, with_kind = self.kind_of(job), self.kind_of(other)
        alone = self.of(job).get(gpu_type, 0.0)
        if self.table is None or kind is None or with_kind is None or alone <= 0:
            return False
        known, usual = self.table.pair_rates(gpu_type, kind, with_kind), None
        if known is not None and min(known) > 0:
            usual = self.table.rate(gpu_type, kind)
        if known is None or not usual:
            return False
        together = gpu_type, kind.model, with_kind.model, str(kind.gpus)
        return self.measured.sample_beside(together, rate / alone, known[0] / usual)

    def table_as_measured(self) -> ThroughputTable | None:
        """Return the table with what was measured of pairs in it."""
        table, kept = self.table, self.measured.kept_used
        if table is None or not kept:
            return table
        changed: dict[GpuType, dict[Pair, tuple[float, float]]] = {}
        for (name, model, other, gpus), part in kept.items():
            gpu_type, size = GpuType(name), int(gpus)
            one, two = JobKind(model, size), JobKind(other, size)
            alone = table.rate(gpu_type, one)
            if not alone or table.pair_rates(gpu_type, one, two) is None:
                continue
            if gpu_type not in changed:
                changed[gpu_type] = dict(table.paired[gpu_type])
            rows, own = changed[gpu_type], part * alone
            theirs = own if one == two else rows[one, two][1]
            rows[one, two], rows[two, one] = (own, theirs), (theirs, own)
        return replace(table, paired={**table.paired, **changed})

    def base_rate(self, job: Job) -> float | None:
        """Return the steps a second that count as speed 1, None where no table says."""
        if self.table is None:
            return None
        kind = self.table.kind_of(job.spec)
        return None if kind is None else self.table.rate(self.table.base_type, kind)

    def _known(
        self, job_id: JobId, kind: JobKind | None, fits: Sequence[GpuType]
    ) -> dict[GpuType, float]:
        known: dict[GpuType, float] = {}
        if kind is not None and self.table is not None:
            for name in fits:
                rate = self.table.rate(name, kind)
                if rate is not None:
                    known[name] = rate
        used = self.measured.used.get(job_id)
        if not used:
            return known
        # Where a table knows the types' ratios, they carry what was measured over to the others.
        ratios = [used[name] / known[name] for name in used if known.get(name)]
        scale = sum(ratios) / len(ratios) if ratios else 1.0
        return {**{name: rate * scale for name, rate in known.items()}, **used}


def _averaged(value: float, before: float | None) -> float:
    """Return an average with a new value in it."""
    return value if before is None else before + WEIGHT * (value - before)


SOLVED: Final = "ok"
"""The status of targets that were computed; any other one says why they were not."""

_PACKED = Sharing.packed
_WHOLE = 1.0 - 1e-6
"""A target at which a job is to stay where it is."""


@fact
class CurrentPlacement:
    """Where a job has GPUs and with whom, and up to when its time was counted.

    The time of a `gang` counts once, with its first job.
    """

    gpu_type: GpuType
    counted_us: int
    gang: Gang


@dataclass(slots=True)
class GavelMemory:
    """The policy's memory; only observers and `advance` write it.

    `turn` is the number of the present turn, `turns` whether it has just begun. `asks` says that
    fractions are due, `contended` that the next turn may seat others though nothing happens.
    `stale` says that something has happened since the last plan, `changed` that it may be about
    who wants GPUs, or what GPUs there are. `told` are the recorded reasons of those that wait.
    `guessed` are rates of jobs from those of other jobs, and how far off such guesses are; `found`
    are those last looked up. `packing` is what a placement that adapts to the load goes by,
    `places` what a maker of room does, `proposals` what job schedulers remember.
    """

    ledger: Ledger = field(default_factory=lambda: Ledger([], 1.0))
    measured: Measured = field(default_factory=Measured)
    finish_times: FinishTimes | None = None
    posts: dict[JobId, CurrentPlacement] = field(default_factory=dict)
    told: dict[JobId, Reason] = field(default_factory=dict)
    room: dict[GpuType, int] = field(default_factory=dict)
    turn: int = -1
    turns: bool = False
    asks: bool = False
    contended: bool = False
    stale: bool = True
    changed: bool = True
    asked_us: int | None = None
    checked: bool = False
    problem: str = ""
    guessed: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)
    guess_error: float | None = None
    packing: Packing = field(default_factory=dict)
    places: RoomMemory | None = None
    proposals: ProposalMemory | None = None
    found: dict[JobId, dict[GpuType, float]] = field(
        default_factory=dict, compare=False, metadata=DERIVED
    )

    def take(self, event: facts.TargetsSet) -> None:
        """Go by new targets; where there was no answer, by the last ones."""
        self.asked_us, self.problem = event.at_us, ""
        if event.status == SOLVED:
            fractions = fractions_of(event.targets)
            self.know_pairs(fractions)
            self.ledger.reset(fractions, seconds(event.at_us))
        else:
            self.problem, self.ledger.is_dirty = event.status, False

    def know_pairs(self, fractions: Fractions) -> None:
        """Count the time of the pairs of known jobs that have targets, and no others."""
        ledger = self.ledger
        for gang in [gang for gang in ledger.received_s if len(gang) > 1 and gang not in fractions]:
            del ledger.received_s[gang]
        for gang in [gang for gang in fractions if len(gang) > 1]:
            known = all((job_id,) in ledger.received_s for job_id in gang)
            if known and gang not in ledger.received_s:
                ledger.add(gang)

    def settle(self, job_id: JobId, now_us: int) -> None:
        """Count the time of a job at its post up to now."""
        post = self.posts.get(job_id)
        if post is None:
            return
        gang, received_s = post.gang, self.ledger.received_s
        if gang[0] == job_id and post.gpu_type in received_s.get(gang, ()):
            self.ledger.credit(gang, post.gpu_type, seconds(now_us - post.counted_us))
        self.posts[job_id] = CurrentPlacement(post.gpu_type, now_us, gang)

    def settle_all(self, now_us: int) -> None:
        """Count everybody's time up to now."""
        for job_id in self.posts:
            self.settle(job_id, now_us)
        self.ledger.pass_time(seconds(now_us))

    def post(self, job: Job, view: View, now_us: int) -> None:
        """Note where a job is from now on, and with whom; the same for those concerned."""
        concerned = dict.fromkeys((*self._gang_at(job.job_id), *gang_of(job, view)))
        for other in concerned:
            self.settle(other, now_us)
        for other in concerned:
            if other in view.jobs:
                self._put(view.jobs[other], view, now_us)

    def beside(self, job_id: JobId) -> Gang:
        """Return who shares a job's GPUs now."""
        return tuple(name for name in self._gang_at(job_id) if name != job_id)

    def _gang_at(self, job_id: JobId) -> Gang:
        post = self.posts.get(job_id)
        return (job_id,) if post is None else post.gang

    def _put(self, job: Job, view: View, now_us: int) -> None:
        gpu_type = gpu_type_of(job, view)
        if gpu_type is None:
            self.posts.pop(job.job_id, None)
        else:
            self.posts[job.job_id] = CurrentPlacement(gpu_type, now_us, gang_of(job, view))

    def resized(self, event: facts.JobResized, view: View) -> None:
        """Drop the rates of a job whose gang has another size from its next attempt on."""
        self.measured.forget_rates(event.job_id)
        self.found.pop(event.job_id, None)
        self.stale = self.changed = True

    def moved(self, event: facts.AllocationChanged, view: View) -> None:
        """Note where a job is given GPUs, or why it leaves those it has."""
        job_id, rule = event.job_id, event.because.rule
        self.post(view.jobs[job_id], view, event.at_us)
        if event.allocation.shares or rule not in Reason.__members__:
            self.told.pop(job_id, None)
        else:
            self.told[job_id] = Reason(rule)

    def ended(self, event: Any, view: View) -> None:
        """Drop a job that has ended; somebody may have its GPUs."""
        self.forget(event.job_id, view, event.at_us)
        self.stale = self.changed = True

    def forget(self, job_id: JobId, view: View, now_us: int) -> None:
        """Drop a job that has ended."""
        before = self._gang_at(job_id)
        for other in before:
            self.settle(other, now_us)
        self.posts.pop(job_id, None)
        for other in before:
            if other in view.jobs:
                self._put(view.jobs[other], view, now_us)
        self.told.pop(job_id, None)
        self.measured.forget(job_id)
        self.found.pop(job_id, None)


def gang_of(job: Job, view: View) -> Gang:
    """Return a job with those that share its GPUs, by submission."""
    if job.allocation.sharing is not _PACKED:
        return (job.job_id,)
    jobs = view.jobs
    return tuple(sorted((job.job_id, *view.partners(job)), key=lambda name: jobs[name].ordinal))


def gpu_type_of(job: Job, view: View) -> GpuType | None:
    """Return the type of the GPUs a job was given, None if it has none."""
    if not job.allocation.shares or not job.spec.gpus:
        return None
    return view.cluster.servers[job.allocation.shares[0].node].configuration.gpu_type


def fractions_of(targets: Iterable[facts.Target]) -> Fractions:
    """Return recorded targets as the mechanism takes them."""
    found: Fractions = {}
    for target in targets:
        found.setdefault(target.jobs, {})[target.gpu_type] = target.fraction
    return found


def seconds(time_us: int) -> float:
    """Return microseconds in seconds."""
    return time_us / 1_000_000


def targets_of(fractions: Fractions) -> tuple[facts.Target, ...]:
    """Return fractions as they are recorded: to 1e-9, and only where there is any."""
    found: list[facts.Target] = []
    for gang, row in fractions.items():
        for name, part in row.items():
            rounded = round(part, 9)
            if rounded > 0:
                found.append(facts.Target(gang, name, rounded))
    return tuple(found)


def is_contended(memory: GavelMemory) -> bool:
    """Say whether anybody is not where it is to stay."""
    ledger, posts = memory.ledger, memory.posts
    for gang in ledger.received_s:
        if len(gang) > 1:
            continue  # its jobs are looked at one by one, wherever they are
        post = posts.get(gang[0])
        if post is None or ledger.target(post.gang, post.gpu_type) < _WHOLE:
            return True
    return False


EntityBy = Literal["user", "queue", "group"]
UNKNOWN_S: Final = 86_400.0
"""What a job counts as that declares neither steps nor a limit: a day on its fastest type."""


_NO_TABLE: Final = ThroughputTable({})


def room_of(view: View) -> dict[GpuType, int]:
    """Return the GPUs of each type that are up, in the order of the types' names."""
    return {
        GpuType(name): pool.gpus_up for name, pool in sorted(view.pools.items()) if pool.gpus_up
    }


def wants(job: Job) -> bool:
    """Say whether a job has GPUs, or wants them and may have them."""
    if not job.spec.gpus or job.end_cause or job.phase is ENDING:
        return False
    return bool(job.allocation.shares) or job.phase is SUSPENDING or job.is_eligible


def waits_nowhere(
    jobs: Iterable[Job], rates: Rates, known: Callable[[JobId], Reason | None], *, every: bool
) -> Iterator[tuple[JobId, Wait]]:
    """Yield what holds back jobs that get on nowhere, where it is new (or all)."""
    for job in jobs:
        wait = _unable(job, rates)
        if every or known(job.job_id) is not wait.reason:
            yield job.job_id, wait


def demands_of(view: View, rates: Rates, by: EntityBy) -> Demands:
    """Return the requests of all jobs that want GPUs and can run, in order."""
    requests = tuple(_claims(view, rates, by))
    return Demands(requests, rates.room, rates.table_as_measured() or _NO_TABLE)


def _unable(job: Job, rates: Rates) -> Wait:
    """Return what holds back a job that gets on nowhere."""
    spec = job.spec
    up = [gpus for name, gpus in rates.room.items() if not spec.gpu_types or name in spec.gpu_types]
    if up and max(up) < spec.gpus:
        return Wait(Reason.no_capacity, spec.gpus, max(up))
    return Wait(Reason.gpu_type_unavailable, spec.gpus, detail="throughput" if up else "")


def _claims(view: View, rates: Rates, by: EntityBy) -> Iterator[JobRequest]:
    now_us, spare = view.now_us, _least_a_gpu(view)
    unknown: dict[tuple[str, int], JobKind] = {}
    for job in view.jobs.values():
        if not wants(job):
            continue
        own = rates.of(job)
        if not any(own.values()):
            continue
        spec = job.spec
        due_us, kind = spec.deadline_us, rates.kind_of(job)
        if kind is None:
            named = spec.model, spec.gpus
            kind = unknown.get(named) or unknown.setdefault(named, JobKind(*named))
        yield JobRequest(
            job.job_id,
            kind,
            max(1, round(_left(job, rates, own, now_us))),
            seconds(now_us - job.submitted_us),
            spec.weight,
            None if due_us is None else seconds(due_us - now_us),
            getattr(spec, by),
            own,
            gpu_type_of(job, view),
            _is_alone(job, spare),
        )


def _is_alone(job: Job, spare: tuple[float, float]) -> bool:
    """Say whether a job shares no GPUs: it must be near, or needs many CPUs.

    Two jobs that ask for no more than half of what there is with each GPU fit anywhere together.
    """
    demand = job.demand
    if demand.max_level is not None or demand.shapes:
        return True
    cpus, memory = 2 * demand.cpus_milli, 2 * demand.memory_mb
    return cpus > spare[0] * demand.gpus or memory > spare[1] * demand.gpus


def _least_a_gpu(view: View) -> tuple[float, float]:
    """Return the least CPUs and memory that any server has with each GPU."""
    sets = [
        server.configuration
        for pool in view.pools.values()
        for server in pool.servers
        if server.gpus_up and not pool.unit_cpus_milli  # nobody shares units of CPU
    ]
    cpus = min((where.cpus_milli / where.gpus for where in sets), default=0.0)
    return cpus, min((where.memory_mb / where.gpus for where in sets), default=0.0)


def _left(job: Job, rates: Rates, own: dict[GpuType, float], now_us: int) -> float:
    """Return the steps a job has left to do, as far as anybody can know."""
    spec, fastest = job.spec, max(own.values())
    if spec.total_steps is not None:
        base = rates.base_rate(job)
        done = rates.measured.steps.get(job.job_id)
        if done is None:
            done_s = seconds(job.done_us(now_us))
            return spec.total_steps - done_s * (base if base is not None else fastest)
        return spec.total_steps - done
    if spec.time_limit_us is not None:
        return seconds(max(0, spec.time_limit_us - job.occupied_us(now_us))) * fastest
    return UNKNOWN_S * fastest
