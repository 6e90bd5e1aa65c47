"""What the policy remembers: targets and receipts, what was measured, and where everybody is."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from shunter.core.planning.draft import RoomMemory
from shunter.core.planning.placement import Packing
from shunter.core.planning.proposals import ProposalMemory
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.facts.decisions import AllocationChanged, Target, TargetsSet
from shunter.events.facts.jobs import JobResized
from shunter.events.rows import DERIVED
from shunter.events.values.allocation import Sharing
from shunter.events.values.fact import fact
from shunter.events.values.ids import GpuType, JobId
from shunter.events.values.reasons import Reason
from shunter.policies.gavel.mechanism import Fractions, Gang, Ledger
from shunter.policies.gavel.objectives import FinishTimes
from shunter.policies.gavel.scheduling.rates import Measured

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

    def take(self, event: TargetsSet) -> None:
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

    def resized(self, event: JobResized, view: View) -> None:
        """Drop the rates of a job whose gang has another size from its next attempt on."""
        self.measured.forget_rates(event.job_id)
        self.found.pop(event.job_id, None)
        self.stale = self.changed = True

    def moved(self, event: AllocationChanged, view: View) -> None:
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


def fractions_of(targets: Iterable[Target]) -> Fractions:
    """Return recorded targets as the mechanism takes them."""
    found: Fractions = {}
    for target in targets:
        found.setdefault(target.jobs, {})[target.gpu_type] = target.fraction
    return found


def seconds(time_us: int) -> float:
    """Return microseconds in seconds."""
    return time_us / 1_000_000


def targets_of(fractions: Fractions) -> tuple[Target, ...]:
    """Return fractions as they are recorded: to 1e-9, and only where there is any."""
    found: list[Target] = []
    for gang, row in fractions.items():
        for name, part in row.items():
            rounded = round(part, 9)
            if rounded > 0:
                found.append(Target(gang, name, rounded))
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
