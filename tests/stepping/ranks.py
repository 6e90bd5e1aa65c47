"""The ranks of the first policies, written down as their papers say them; lower goes first."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from shunter.core import Health, Job, View
from shunter.core.sizing import WHOLE
from shunter.policies import LADDER, RHO_ONE

Rank = Callable[[Job, View], int]


def by_submission(job: Job, view: View) -> int:
    """Fifo: nothing but the order of submission."""
    return 0


def by_duration(job: Job, view: View) -> int:
    """Sjf: the whole run time."""
    duration_us = view.duration_us(job)
    assert duration_us is not None, "every job of a trace has a run time"
    return duration_us


def by_remaining_time(job: Job, view: View) -> int:
    """Srtf: the part of the run time that is left, at base speed."""
    duration_us = view.duration_us(job)
    assert duration_us is not None, "every job of a trace has a run time"
    done_us = job.work_us
    if job.working_since_us is not None:
        done_us += int((view.now_us - job.working_since_us) * job.speed)
    return max(0, duration_us - done_us)


def by_service(bounds_gpu_us: Sequence[int]) -> Rank:
    """Las: the number of thresholds that the GPU time used has reached, or that time itself."""

    def rank(job: Job, view: View) -> int:
        used = job.service_gpu_us
        if job.since_us is not None:
            used += job.gpus * (view.now_us - job.since_us)
        return sum(used >= bound for bound in bounds_gpu_us) if bounds_gpu_us else used

    return rank


def by_size(job: Job, view: View) -> int:
    """Smallest: the number of GPUs."""
    return job.spec.gpus


def by_remaining_service(job: Job, view: View) -> int:
    """Shortest-gpu: remaining run time times GPUs."""
    return by_remaining_time(job, view) * job.spec.gpus


def by_dominant_share(job: Job, view: View) -> int:
    """Drf: the largest part of the cluster that the job asks for, of any resource."""
    return max(_parts(job, view))


def by_remaining_volume(job: Job, view: View) -> int:
    """Tetris: remaining run time times the parts of all resources, in nanoseconds."""
    return by_remaining_time(job, view) * 1000 * sum(_parts(job, view)) // WHOLE


def _parts(job: Job, view: View) -> list[int]:
    """Return what a job asks for over what there is; where it asks nothing, as for GPUs."""
    there = [
        server.configuration
        for server in view.cluster.servers.values()
        if server.health is not Health.removed
    ]
    gpus = sum(where.gpus for where in there)
    of_gpus = Fraction(job.spec.gpus, gpus) if gpus else Fraction(0)
    asked = [
        (job.spec.cpus_milli, sum(where.cpus_milli for where in there)),
        (job.spec.memory_mb, sum(where.memory_mb for where in there)),
    ]
    beside = [Fraction(asks, all_of) if asks and all_of else of_gpus for asks, all_of in asked]
    return [int(part * WHOLE) for part in (of_gpus, *beside)]


def by_unfairness(job: Job, view: View) -> int:
    """Ftf: falling shared time over time alone, told in steps."""
    alone_us = view.duration_us(job)
    if not alone_us:
        return 0
    shared_us = view.now_us - job.submitted_us + alone_us - job.done_us(view.now_us)
    return -sum(shared_us * RHO_ONE // alone_us >= step for step in LADDER)


def by_chance(history: Sequence[int], bounds: Sequence[int], quantum_us: int | None) -> Rank:
    """Gittins: queue, then falling best chance to finish over expected use, from the samples.

    The index is that of the last sample the job has passed (0 before the first).
    """

    def index(attained: int) -> int:
        longer = [sample for sample in history if sample > attained]
        best = Fraction(0)
        for quantum in [sample - attained for sample in longer] if not quantum_us else [quantum_us]:
            done = sum(sample - attained <= quantum for sample in longer)
            used = sum(min(sample - attained, quantum) for sample in longer)
            best = max(best, Fraction(done, used)) if used else best
        return int(best * (1 << 50))

    def rank(job: Job, view: View) -> int:
        service = job.service_us(view.now_us)
        passed = max([sample for sample in history if sample <= service], default=0)
        return sum(service >= bound for bound in bounds) * (1 << 60) - index(passed)

    return rank


def by_expected_rest(history: Sequence[int]) -> Rank:
    """Shortest-expected: the mean of the longer samples less what the last one passed was."""

    def rank(job: Job, view: View) -> int:
        service = job.service_us(view.now_us)
        passed = max([sample for sample in history if sample <= service], default=0)
        longer = [sample for sample in history if sample > passed]
        return sum(longer) // len(longer) - passed if longer else 1 << 50

    return rank
