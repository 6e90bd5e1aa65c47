"""From a view to job requests: who wants GPUs, of what rates, with how much left to do."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

from shunter.core.speeds.speed_model import JobKind, ThroughputTable
from shunter.core.state import ENDING, SUSPENDING, Job
from shunter.core.view import View
from shunter.events.values.ids import GpuType, JobId
from shunter.events.values.reasons import Reason, Wait
from shunter.policies.gavel.mechanism import Demands, JobRequest
from shunter.policies.gavel.scheduling.policy_memory import gpu_type_of, seconds
from shunter.policies.gavel.scheduling.rates import Rates

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
