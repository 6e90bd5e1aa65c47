"""What a run did to its jobs, gathered from the facts as they are folded.

Definitions: JCT = end - submission; wait = JCT - time holding resources; makespan = last end -
origin; migration = an attempt launched on other GPUs than the one before; utilisation = held
GPU-seconds / GPU-seconds in service or held, up to the instant at which the last end was seen. A
shared GPU counts once, though each tenant attains service on it. Percentiles interpolate linearly.
A job ends when its processes do, also where the scheduler sees that later; a rejected job never
ran, and its rejection is no end.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import TypedDict

from shunter.core.cluster import UsableGpus
from shunter.core.interfaces import Observers
from shunter.core.state import ProposalBook, State
from shunter.core.view import View
from shunter.events import (
    CLUSTER_CHANGES,
    JOB_ENDS,
    Allocation,
    Event,
    JobId,
    end_us_of,
    fact,
    facts,
)

_REJECTED = facts.Outcome.rejected
# The facts with which attempts begin, but for the ends of jobs: GPUs are given on with all of them.
LAUNCHES = (
    facts.AllocationChanged,
    facts.AllocationLearned,
    facts.GpusReleased,
    facts.AttemptLost,
    facts.LaunchFailed,
)
SIZE_CLASSES = ((0, "cpu"), (1, "1"), (2, "2-4"), (5, "5-8"), (9, "9-16"), (17, "17+"))


@fact
class JobResult:
    """One job's story in numbers.

    Instants and durations are in microseconds, None: never happened. `ordinal` is its place in the
    order of submissions.
    """

    job_id: JobId
    user: str
    gpus: int
    submit_us: int
    first_start_us: int | None
    end_us: int | None
    held_us: int
    service_gpu_us: int
    preemptions: int
    migrations: int
    status: str
    ordinal: int = -1

    @property
    def jct_us(self) -> int | None:
        """The job completion time."""
        return None if self.end_us is None else self.end_us - self.submit_us

    @property
    def wait_us(self) -> int | None:
        """The part of the completion time in which it held nothing."""
        return None if self.end_us is None else self.end_us - self.submit_us - self.held_us


@fact
class Distribution:
    """Mean and percentiles of a sample; all None where the sample is empty."""

    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None


@dataclass(slots=True)
class JobLedger:
    """Columns of finished stories; arrays, so that a million jobs fit in memory.

    Of jobs that have not ended, `places` are the GPUs of the last attempt, and `moves` how often
    an attempt began on other GPUs than the one before. `capacity_us` is the GPU time that there was
    up to `changed_us`, and `seen_capacity_us` up to `seen_us`, when the last end was seen.
    """

    ids: list[JobId] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    statuses: list[facts.Outcome] = field(default_factory=list)
    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    capacity_us: int = 0
    usable: UsableGpus = field(default_factory=UsableGpus)
    changed_us: int = 0
    last_end_us: int = 0
    seen_us: int = 0
    seen_capacity_us: int = 0
    held_gpu_us: int = 0
    places: dict[JobId, Allocation] = field(default_factory=dict)
    moves: dict[JobId, int] = field(default_factory=dict)

    _WIDTH = 9

    def observers(self) -> Observers:
        """Return what the ledger observes."""
        told: dict[type[Event], object] = dict.fromkeys(JOB_ENDS, self._ended)
        told.update(dict.fromkeys(CLUSTER_CHANGES, self._cluster_changed))
        told.update(dict.fromkeys(LAUNCHES, self._launched))
        told[facts.JobReshaped] = self._held_elsewhere
        return told  # type: ignore[return-value]  # each observer takes the kinds it is listed for

    def results(self) -> list[JobResult]:
        """Return the stories of the jobs that ended, in the order of their ends."""
        return list(self.stories())

    def stories(self) -> Iterator[JobResult]:
        """Yield the stories of the jobs that ended, in the order of their ends."""
        width = self._WIDTH
        for i in range(len(self.ids)):
            numbers = self.numbers[i * width : (i + 1) * width]
            yield _result(self.ids[i], self.users[i], str(self.statuses[i]), numbers)

    def unfinished(self, state: State) -> list[JobResult]:
        """Return the stories so far of the jobs that have not ended."""
        return [
            JobResult(
                job.job_id,
                job.spec.user,
                job.submitted_spec.gpus,
                job.submitted_us,
                job.first_start_us,
                None,
                job.occupied_us(state.now_us),
                job.service_us(state.now_us),
                job.preemptions,
                self.moves.get(job.job_id, 0),
                "unfinished",
                job.ordinal,
            )
            for job in state.jobs.values()
        ]

    def _launched(self, event: Event, view: View) -> None:
        """Note where attempts begin, and whether the job was on other GPUs before."""
        for job in view.result.launched:
            job_id, held = job.job_id, job.held
            last = self.places.get(job_id, held)
            if job.attempt > 1 and held.gpus == last.gpus and not held.is_on_gpus_of(last):
                self.moves[job_id] = self.moves.get(job_id, 0) + 1
            self.places[job_id] = held
        if isinstance(event, facts.AllocationLearned):
            self.places[event.job_id] = view.jobs[event.job_id].held
        self._held_elsewhere(event, view)

    def _held_elsewhere(self, event: Event, view: View) -> None:
        """Count the GPUs that there are, where jobs may hold others than before."""
        if self.usable.hangs_on_holders:
            self._pass_to(event.at_us)
            self.usable.holders_changed()

    def _pass_to(self, at_us: int) -> None:
        self.capacity_us += self.usable.count * (at_us - self.changed_us)
        self.changed_us = at_us

    def _ended(self, event: Event, view: View) -> None:
        result = view.result
        if result.launched or self.usable.hangs_on_holders:
            self._launched(event, view)
        job = result.departed
        assert job is not None, "an end without a job"
        assert job.outcome is not None, "an end without an outcome"
        assert isinstance(event, JOB_ENDS), "an end that is none"
        status, end_us = job.outcome, end_us_of(event)
        has_end = status is not _REJECTED
        if has_end:
            self._pass_to(event.at_us)
            self.seen_us, self.seen_capacity_us = event.at_us, self.capacity_us
        if has_end and end_us > self.last_end_us:
            self.last_end_us = end_us
        self.ids.append(job.job_id)
        self.users.append(job.spec.user)
        self.statuses.append(status)
        self.numbers.extend(
            (
                job.submitted_spec.gpus,
                job.submitted_us,
                -1 if job.first_start_us is None else job.first_start_us,
                end_us if has_end else -1,
                # What is held between the end and its being seen is no part of the JCT.
                job.held_us - (event.at_us - end_us),
                job.service_gpu_us,
                job.preemptions,
                self.moves.pop(job.job_id, 0),
                job.ordinal,
            )
        )
        self.places.pop(job.job_id, None)
        self.held_gpu_us += job.service_gpu_us

    def _cluster_changed(self, event: Event, view: View) -> None:
        self._pass_to(event.at_us)
        self.usable.servers_changed(view.cluster)
        self._launched(event, view)

    def utilisation(self, state: State) -> float | None:
        """Return the share of GPU time jobs held up to the last end; None without any."""
        end_us, capacity_us = self.seen_us, self.seen_capacity_us
        held_us = self.held_gpu_us + sum(
            job.service_us(end_us)
            if job.since_us is None or job.since_us <= end_us
            else job.service_gpu_us
            for job in state.jobs.values()
        )
        held_us -= state.overcommit_us(end_us)
        return held_us / capacity_us if capacity_us > 0 else None


def distribution(values_us: Sequence[int]) -> Distribution:
    """Return the `distribution_of` microseconds, in seconds."""
    return distribution_of(values_us, 1e6)


def distribution_of(values: Sequence[float], unit: float = 1.0) -> Distribution:
    """Return mean and linearly interpolated percentiles, in a unit of so many."""
    if not values:
        return Distribution(None, None, None, None, None, None)
    ordered = sorted(values)
    p50, p90, p95, p99 = (percentile(ordered, q) / unit for q in (50, 90, 95, 99))
    return Distribution(fmean(ordered) / unit, p50, p90, p95, p99, ordered[-1] / unit)


def percentile(ordered: Sequence[float], q: int) -> float:
    """Return the q-th percentile of a sorted sample, linear between the two nearest."""
    rank, rest = divmod((len(ordered) - 1) * q, 100)
    low = ordered[rank]
    return low + (ordered[rank + 1] - low) * rest / 100 if rest else float(low)


def size_class(gpus: int) -> str:
    """Return the gang-size class of a job."""
    return next(name for least, name in reversed(SIZE_CLASSES) if gpus >= least)


def finish_time_fairness(result: JobResult, alone_us: int) -> float | None:
    """Return JCT over run time alone of a finished job; None where there is none.

    rho = shared time / independent time (Mahajan et al., Themis, NSDI 2020, section 3), with the
    independent time that of the job alone on the cluster.
    """
    if result.status != facts.Outcome.finished or result.jct_us is None or alone_us <= 0:
        return None
    return result.jct_us / alone_us


def _result(job_id: JobId, user: str, status: str, numbers: "array[int]") -> JobResult:
    gpus, submit_us, first_us, end_us, held_us, service_us, preemptions, migrations, ordinal = (
        numbers
    )
    return JobResult(
        job_id,
        user,
        gpus,
        submit_us,
        None if first_us < 0 else first_us,
        None if end_us < 0 else end_us,
        held_us,
        service_us,
        preemptions,
        migrations,
        status,
        ordinal,
    )


# Proposals. Approval takes from when the order lets a job start until its proposal is approved.


class ProposalsDocument(TypedDict):
    """The part of a run's document about proposals; docs/reference/results.md."""

    proposed: int
    approved: int
    rejected: int
    conflicts: int
    conflict_rate: float
    approval_s: dict[str, float | None]


@dataclass(slots=True)
class ProposalNumbers:
    """Follows who is admitted, at the instants `admitted_us`, and approved."""

    admitted_us: list[int] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    _since_us: dict[JobId, int] = field(default_factory=dict)

    def observers(self) -> Observers:
        """Return what it listens to."""
        return {
            facts.RoundPlanned: self._planned,
            facts.GangApproved: self._approved,
            **dict.fromkeys(JOB_ENDS, self._ended),
        }

    def document(self, book: ProposalBook) -> ProposalsDocument:
        """Return counts, the conflict rate, and times to approval in seconds."""
        times = distribution_of(self.waits_s)
        return {
            "proposed": book.proposed,
            "approved": book.approved,
            "rejected": book.rejected,
            "conflicts": book.conflicts,
            "conflict_rate": book.conflict_rate,
            "approval_s": asdict(times),
        }

    def _planned(self, event: facts.RoundPlanned, view: View) -> None:
        for job_id in event.admitted:
            self._since_us[job_id] = event.at_us
            self.admitted_us.append(event.at_us)
        for job_id in event.dismissed:
            self._since_us.pop(job_id, None)

    def _approved(self, event: facts.GangApproved, view: View) -> None:
        since_us = self._since_us.pop(event.job_id, None)
        if since_us is not None:
            self.waits_s.append((event.at_us - since_us) / 1e6)

    def _ended(self, event: Event, view: View) -> None:
        self._since_us.pop(getattr(event, "job_id", JobId("")), None)
