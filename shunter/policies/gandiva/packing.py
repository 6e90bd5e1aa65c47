"""Packing under overload: two jobs of a server run at once where that beats their turns.

Jobs begin with turns of their own, so that they can be measured alone. While more of them want the
GPUs of a server than can have them at once, the one that uses its GPU least is tried beside the one
that uses it least of the others, within the memory of a GPU (Gandiva, OSDI 2018, 3.3). Kept is what
gains over the turns, everything else has turns of its own again; a pair of models that lost on a
type of GPU is not tried there again. One pack at a time is tried in each server, for neighbours
disturb each other, and never with a job whose move is on trial. Packs end once there is room for
all of a server at once.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import inf

from shunter.core.performance.introspection import (
    TrialRules,
    is_known_loss,
    model_of,
    proposed,
    running,
)
from shunter.core.planning.plan import Judge, Try
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.ids import GpuType, JobId, NodeName
from shunter.events.values.trials import MILLION, ChangeKey, TrialKind, TrialReason


class Packing:
    """Which packs are tried, kept and given up, by what was measured so far."""

    def __init__(self, rules: TrialRules, gpu_memory_mb: Mapping[GpuType, int]) -> None:
        self._rules = rules
        self._gpu_memory_mb = gpu_memory_mb

    def steps(self, view: View) -> list[Try | Judge]:
        """Return which trials end now, and which begin."""
        found: list[Try | Judge] = []
        busy = set[NodeName]()
        for trial, jobs in running(view):
            if trial.kind is TrialKind.pack:
                busy.add(_node_of(jobs[0]))
                verdict = self._rules.verdict(trial, jobs, view.now_us)
                if verdict is not None:
                    found.append(verdict.judges(jobs[0].job_id))
        for node, there in _sharing(view).items():
            if node not in busy:
                step = self._step(view, node, there)
                if step is not None:
                    found.append(step)
        return found

    def next_us(self, view: View) -> int | None:
        """Return when a trial can be judged, or jobs of a full server have been measured."""
        at_us = [
            self._rules.next_us(trial, view.now_us)
            for trial, _ in running(view)
            if trial.kind is TrialKind.pack
        ]
        is_unmeasured = any(
            _surplus(jobs) > 0
            and any(_is_alone(job) and not job.pace.batch_us_at(job.speed) for job in jobs)
            for jobs in _sharing(view).values()
        )
        if is_unmeasured:
            at_us.append(view.now_us + self._rules.probe_us)
        return min(at_us, default=None)

    def _step(self, view: View, node: NodeName, jobs: list[Job]) -> Try | Judge | None:
        """Return the next pack to try in a server, or one that is not needed any more."""
        surplus = _surplus(jobs)
        if surplus < 0:
            packed = [job for job in jobs if job.packed_with]
            fitting = [job for job in packed if job.held.gpus <= -surplus]
            last = max(fitting, key=lambda job: job.ordinal, default=None)
            return None if last is None else Judge(last.job_id, TrialReason.room, 0, ())
        if not surplus or any(self._is_new(job, view.now_us) for job in jobs):
            return None
        for job, other in self._pairs(view, node, jobs):
            key = _key(view, node, job, other)
            if is_known_loss(key, view.verdicts):
                continue
            trial = proposed(job, (other,), key, TrialKind.pack, MILLION)
            if trial is not None:
                return trial
        return None

    def _is_new(self, job: Job, now_us: int) -> bool:
        """Say whether a job is still to be measured alone, before anybody is chosen."""
        if not _is_alone(job) or job.pace.batch_us_at(job.speed) is not None:
            return False
        had_us = job.service_us(now_us) // job.held.gpus
        return job.best_batch is not None or had_us < 2 * self._rules.probe_us

    def _pairs(self, view: View, node: NodeName, jobs: list[Job]) -> Iterator[tuple[Job, Job]]:
        """Yield who may be packed with whom, those first that use their GPUs least."""
        untried = [job for job in jobs if _is_alone(job) and job.job_id not in view.trials]
        alone = sorted(untried, key=_by_use)
        most_mb = self._gpu_memory_mb.get(_gpu_type(view, node), inf)
        for job, other in combinations(alone, 2):
            is_equal = job.held.gpus == other.held.gpus
            if view.homes_are_fixed and not (job.can_move and other.can_move):
                is_equal = job.held.shares[0].gpu_mask == other.held.shares[0].gpu_mask
            if is_equal and _memory_mb(job) + _memory_mb(other) <= most_mb:
                yield job, other


def _sharing(view: View) -> dict[NodeName, list[Job]]:
    """Return by server the jobs that take turns there alone, in order of submission."""
    found: dict[NodeName, list[Job]] = {}
    for job in view.jobs.values():
        if (
            job.takes_turns
            and not job.is_spread
            and job.held == job.allocation
            and not job.end_cause
        ):
            found.setdefault(_node_of(job), []).append(job)
    return found


def _surplus(jobs: list[Job]) -> int:
    """Return how many GPUs more than a server has would give all a turn at once.

    Of a pack one counts. Below 0: so many GPUs that jobs share are idle.
    """
    mask = 0
    widths = dict[JobId, int]()
    for job in jobs:
        mask |= job.held.shares[0].gpu_mask
        widths[job.pack_id] = job.held.gpus
    return sum(widths.values()) - mask.bit_count()


def _is_alone(job: Job) -> bool:
    return not job.packed_with


def _by_use(job: Job) -> tuple[float, int]:
    used = job.pace.gpu_utilisation
    return inf if used is None else used, job.ordinal


def _memory_mb(job: Job) -> int:
    return job.pace.gpu_memory_mb or 0


def _key(view: View, node: NodeName, *jobs: Job) -> ChangeKey:
    models = tuple(sorted(map(model_of, jobs)))
    return ChangeKey(TrialKind.pack, models, _gpu_type(view, node))


def _gpu_type(view: View, node: NodeName) -> GpuType:
    return view.cluster.servers[node].configuration.gpu_type


def _node_of(job: Job) -> NodeName:
    return job.allocation.shares[0].node
