"""What jobs measured: gangs of distance, trials of mini-batches; values of the state."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from shunter.events import (
    IN_SERVER,
    LEVEL_ORDER,
    NOTHING,
    Allocation,
    Batch,
    ChangeKey,
    Demand,
    GpuType,
    JobId,
    JobSpec,
    Level,
    ProfileSampled,
    ToleranceLearnt,
    TrialKind,
    fact,
)

# Learnt curves of tolerance. In each placement (a level, and a split over servers) the fastest gang
# counts, for neighbours only slow a job down. A placement is as fast as any at least as far apart
# and split, so a curve falls with distance; it needs a gang measured within one server.
#
# A floor (`min_speed`) refuses what was measured, and what is farther; new placements may be tried,
# or nothing would be learnt. What is too slow over more than two servers is put down to their
# number, unless as many were fast enough nearer by; all else to the level.

PLACEMENTS_MOST = 256
"""So many placements are known of a model at most: those measured last."""
SPLITS_MOST = 64
"""A floor bounds the number of servers only if so many splits over fewer ones are left at most."""
_DIGITS = 3


@fact
class MeasuredPlacement:
    """What gangs of a model measured in one placement.

    Attributes:
        split: how many GPUs they have on each server, the most first.
        batch_us: the fastest of the means that they told.
        samples: the mini-batches of all of these.
        job_id: the job that told last, and `last_us` what.
    """

    gpu_type: GpuType
    level: Level
    split: tuple[int, ...]
    batch_size: int | None
    batch_us: int
    samples: int
    job_id: JobId
    last_us: int

    @property
    def key(self) -> tuple[GpuType, Level, tuple[int, ...], int | None]:
        """What tells placements of a model apart."""
        return self.gpu_type, self.level, self.split, self.batch_size

    def is_as_far_as(self, other: "MeasuredPlacement") -> bool:
        """Say whether it is no nearer than another, on no fewer servers."""
        is_as_wide = len(self.split) >= len(other.split)
        return is_as_wide and LEVEL_ORDER[self.level] >= LEVEL_ORDER[other.level]


@dataclass(frozen=True, slots=True)
class LearntPoint:
    """The speed of a placement, relative to the fastest, from so many samples."""

    level: Level
    split: tuple[int, ...]
    speed: float
    samples: int


def with_placement(
    known: Sequence[MeasuredPlacement], told: ToleranceLearnt
) -> tuple[MeasuredPlacement, ...]:
    """Return what is known of a model with one more measurement."""
    new = MeasuredPlacement(
        *(told.gpu_type, told.level, told.split, told.batch_size),
        *(told.batch_us, told.samples, told.job_id, told.batch_us),
    )
    others = []
    for each in known:
        if each.key == new.key:
            fastest_us, samples = min(each.batch_us, new.batch_us), each.samples + new.samples
            new = replace(new, batch_us=fastest_us, samples=samples)
        else:
            others.append(each)
    return (*others[-(PLACEMENTS_MOST - 1) :], new)


def learnt_points(spec: JobSpec, known: Iterable[MeasuredPlacement]) -> tuple[LearntPoint, ...]:
    """Return the learnt curve of a gang, nearest first; empty: there is none.

    Where it may run on several types of GPU, the lower speed of those counts.

    Args:
        spec: whose curve; of those measured, equal gangs count.
        known: what is known of its model.
    """
    alike = [
        each
        for each in known
        if each.batch_size == spec.batch_size
        and sum(each.split) == spec.gpus
        and (not spec.gpu_types or each.gpu_type in spec.gpu_types)
    ]
    found: dict[tuple[Level, tuple[int, ...]], LearntPoint] = {}
    for gpu_type in sorted({each.gpu_type for each in alike}):
        of_type = [each for each in alike if each.gpu_type == gpu_type]
        if all(len(each.split) > 1 for each in of_type):
            continue  # nobody knows how fast it is in one server
        base_us = min(each.batch_us for each in of_type)
        for each in of_type:
            least_us = min(one.batch_us for one in of_type if one.is_as_far_as(each))
            speed, at = round(base_us / least_us, _DIGITS), (each.level, each.split)
            before = found.get(at)
            found[at] = LearntPoint(
                *at,
                speed if before is None else min(speed, before.speed),
                each.samples if before is None else each.samples + before.samples,
            )
    return tuple(
        sorted(
            found.values(),
            key=lambda point: (LEVEL_ORDER[point.level], len(point.split), point.split),
        )
    )


def has_learnt_floor(spec: JobSpec) -> bool:
    """Say whether a job has a floor, and no curve of its own that it could be under."""
    return spec.min_speed is not None and not spec.has_curve and spec.gpus > 1


def learnt_bounds(floor: float, points: Sequence[LearntPoint]) -> tuple[Level | None, int | None]:
    """Return the widest level and the most servers that a floor accepts; None: any.

    Args:
        floor: the lowest speed that will do.
        points: a learnt curve.
    """
    level: Level | None = None
    servers: int | None = None
    fast = [point for point in points if point.speed >= floor]
    for point in points:
        if point.speed >= floor:
            continue
        at, count = LEVEL_ORDER[point.level], len(point.split)
        nearer = [one for one in fast if len(one.split) >= count and LEVEL_ORDER[one.level] < at]
        if count <= 2 or nearer:
            widest = list(Level)[max(0, at - 1)]
            level = widest if level is None else min(level, widest, key=LEVEL_ORDER.__getitem__)
        else:
            servers = count - 1 if servers is None else min(servers, count - 1)
    return level, servers


def bounded(demand: Demand, spec: JobSpec, known: Iterable[MeasuredPlacement]) -> Demand:
    """Return what a job needs under its floor, by what is known of its model.

    Args:
        demand: what it asks for, `max_level` included.
        spec: the job; one without a floor, or with a curve of its own, needs that.
        known: what is known of its model.
    """
    if spec.min_speed is None or not has_learnt_floor(spec):
        return demand
    level, servers = learnt_bounds(spec.min_speed, learnt_points(spec, known))
    if level is None or (demand.max_level and LEVEL_ORDER[demand.max_level] < LEVEL_ORDER[level]):
        level = demand.max_level
    shapes = demand.shapes
    if servers is not None and level not in IN_SERVER:
        shapes = _splits(spec.gpus, servers)
    return replace(demand, max_level=level, shapes=shapes)


def _splits(gpus: int, servers: int) -> tuple[tuple[int, ...], ...]:
    """Return all splits over at most so many servers; none if there are too many."""
    each = (split for count in range(1, servers + 1) for split in _parts(gpus, count, gpus))
    found = tuple(islice(each, SPLITS_MOST + 1))
    return found if len(found) <= SPLITS_MOST else ()


def _parts(total: int, count: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield each way to cut a number into so many parts that fall from `most` on."""
    if count == 1:
        if total <= most:
            yield (total,)
        return
    for first in range(min(most, total - count + 1), -(-total // count) - 1, -1):
        for others in _parts(total - first, count - 1, first):
            yield (first, *others)


# A mini-batch is measured afresh after each change near a job: of its speed where the log says that
# (a simulation), or its samples show it; else where somebody comes, leaves, stops or goes on. The
# first two samples then are left out, since they reach back before the change.

SAMPLES_BEFORE = 2
"""So many samples after a change may tell of what was before."""
SAMPLES_LEAST = 2
"""So many samples count before their mean does."""


@fact
class Pace:
    """The mini-batches of a job since something changed.

    `total_us` is the sum of all `seen` but those that may tell of what was before; `step` is that
    of the last one. The use of its GPUs is that of the last sample that told it: a part of the
    time, and MB. `speed` is that at which samples came, as the log tells it, `service_us` what the
    job had attained when something changed, in GPU-microseconds.
    """

    seen: int = 0
    total_us: int = 0
    gpu_utilisation: float | None = None
    gpu_memory_mb: int | None = None
    step: int | None = None
    speed: float = 1.0
    service_us: int = 0

    def sampled(self, batch_us: int, sample: ProfileSampled) -> "Pace":
        """Return it with a sample more, if the job has done anything since the last one."""
        if sample.step is not None and sample.step == self.step:
            return self
        used, memory_mb = sample.gpu_utilisation, sample.gpu_memory_mb
        return Pace(
            self.seen + 1,
            self.total_us + batch_us if self.seen >= SAMPLES_BEFORE else 0,
            self.gpu_utilisation if used is None else used,
            self.gpu_memory_mb if memory_mb is None else memory_mb,
            sample.step,
            self.speed,
            self.service_us,
        )

    def anew(self, service_us: int = 0) -> "Pace":
        """Return one without samples, which knows the last one when it comes once more."""
        return Pace(step=self.step, speed=self.speed, service_us=service_us)

    def at_speed(self, speed: float, service_us: int) -> "Pace":
        """Return it at a speed: anew, unless its samples had that, or it is 0."""
        if not speed or speed == self.speed:
            return self
        return Pace(
            gpu_utilisation=self.gpu_utilisation,
            gpu_memory_mb=self.gpu_memory_mb,
            step=self.step,
            speed=speed,
            service_us=service_us,
        )

    @property
    def batch_us(self) -> int | None:
        """The mean time of a mini-batch in microseconds; None: too few samples."""
        samples = self.seen - SAMPLES_BEFORE
        return max(1, self.total_us // samples) if samples >= SAMPLES_LEAST else None

    def batch_us_at(self, speed: float) -> int | None:
        """Return `batch_us`, unless it was measured at another speed; 0: between turns."""
        return self.batch_us if not speed or speed == self.speed else None


NO_PACE = Pace()


@fact
class MeasuredRate:
    """How far an attempt was at an instant, and how long its mini-batches took."""

    step: int
    batch_us: int
    at_us: int


@fact
class BestBatch:
    """The fastest mini-batch of a job on so many GPUs of a type, a mean of samples."""

    gpu_type: GpuType
    gpus: int
    batch_us: int


@fact
class Trial:
    """A change that is being tried.

    Attributes:
        kind: what is tried.
        key: what its verdict is remembered by.
        partners: the other jobs that it touches.
        started_us: when it began.
        sum_before: the sum of normalised rates as things were, in millionths.
        batches: the mini-batches that its jobs measured then.
        service_us: the service that each of them had then, in GPU-microseconds.
        origin: where a job was that has been moved.
        is_on: whether the jobs of a pack have had a turn together; until then it changed nothing.
    """

    kind: TrialKind
    key: ChangeKey
    partners: tuple[JobId, ...]
    started_us: int
    sum_before: int
    batches: tuple[Batch, ...]
    service_us: tuple[int, ...]
    origin: Allocation = NOTHING
    is_on: bool = False

    def begun(self) -> "Trial":
        """Return it as one whose pack has its turn."""
        return replace(self, is_on=True)


@fact
class KnownVerdict:
    """How the last trial of a change ended, with sums of rates in millionths."""

    is_loss: bool
    sum_before: int
    sum_after: int
