"""How far jobs were from their target shares: what rounds and whole gangs cost.

A gang has all of its GPUs or none, and a turn is a turn: so a job gets more or less of its share.
Where a policy sets targets, the gap of a job is the part of its time that it was owed at its end,
summed over GPU types. Of jobs of one GPU it is a few turns over their time; of gangs it also shows
what no order of turns can give them.
"""

from dataclasses import dataclass, field
from statistics import fmean

from shunter.core.interfaces import Observers
from shunter.core.view import View
from shunter.events.facts.decisions import AllocationChanged, TargetsSet
from shunter.events.facts.jobs import JOB_ENDS, JobCancelled, JobFailed, JobFinished, JobRejected
from shunter.events.values.ids import GpuType, JobId


@dataclass(slots=True)
class _Account:
    """What a job should have had of each type and has had, since when."""

    since_us: int
    should_us: dict[GpuType, float] = field(default_factory=dict)
    had_us: dict[GpuType, int] = field(default_factory=dict)


@dataclass(slots=True)
class ShareGaps:
    """Follows targets and allocations; `alone` and `gangs` are gaps of ended jobs."""

    alone: list[float] = field(default_factory=list)
    gangs: list[float] = field(default_factory=list)
    _targets: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)
    _set_us: int = 0
    _seats: dict[JobId, tuple[GpuType, int]] = field(default_factory=dict)
    _accounts: dict[JobId, _Account] = field(default_factory=dict)

    def observers(self) -> Observers:
        """Return what it listens to."""
        ended = dict.fromkeys(JOB_ENDS, self._ended)
        return {TargetsSet: self._set, AllocationChanged: self._moved, **ended}

    def document(self) -> dict[str, object] | None:
        """Return mean and largest gaps; None where there were no targets."""
        if not self.alone and not self.gangs:
            return None
        return {"one_gpu": _summed(self.alone), "gangs": _summed(self.gangs)}

    def _set(self, event: TargetsSet, view: View) -> None:
        for job_id in self._targets:
            self._owe(job_id, event.at_us)
        self._targets, self._set_us = {}, event.at_us
        for target in event.targets:
            for job_id in target.jobs:
                row = self._targets.setdefault(job_id, {})
                row[target.gpu_type] = row.get(target.gpu_type, 0.0) + target.fraction
                if job_id not in self._accounts:
                    self._accounts[job_id] = _Account(event.at_us)
                    self._sit(job_id, event.at_us)

    def _moved(self, event: AllocationChanged, view: View) -> None:
        self._leave(event.job_id, event.at_us)
        shares = event.allocation.shares
        if shares:
            server = view.cluster.servers[shares[0].node]
            self._seats[event.job_id] = server.configuration.gpu_type, event.at_us

    def _ended(
        self, event: JobFinished | JobFailed | JobCancelled | JobRejected, view: View
    ) -> None:
        job_id, at_us = event.job_id, event.at_us
        self._leave(job_id, at_us)
        self._owe(job_id, at_us)
        self._targets.pop(job_id, None)
        account = self._accounts.pop(job_id, None)
        job = view.departed
        if account is None or job is None or at_us == account.since_us:
            return
        owed_us = sum(
            max(0.0, should_us - account.had_us.get(name, 0))
            for name, should_us in account.should_us.items()
        )
        gaps = self.alone if job.spec.gpus == 1 else self.gangs
        gaps.append(owed_us / (at_us - account.since_us))

    def _owe(self, job_id: JobId, now_us: int) -> None:
        """Book what a job should have had since the targets were set."""
        account = self._accounts.get(job_id)
        if account is None:
            return
        for name, part in self._targets.get(job_id, {}).items():
            more_us = part * (now_us - self._set_us)
            account.should_us[name] = account.should_us.get(name, 0.0) + more_us

    def _sit(self, job_id: JobId, now_us: int) -> None:
        """Count a seat from now on only."""
        if job_id in self._seats:
            self._seats[job_id] = self._seats[job_id][0], now_us

    def _leave(self, job_id: JobId, now_us: int) -> None:
        """Book what a job has had of a type."""
        seat, account = self._seats.pop(job_id, None), self._accounts.get(job_id)
        if seat is not None and account is not None:
            name, since_us = seat
            account.had_us[name] = account.had_us.get(name, 0) + now_us - since_us


def _summed(gaps: list[float]) -> dict[str, object]:
    mean = fmean(gaps) if gaps else None
    return {"jobs": len(gaps), "gap_mean": mean, "gap_max": max(gaps, default=None)}
