"""What changes over a run, in equal parts of its time.

Of queue, jobs that run, GPUs in use and GPUs that there are (in service, or in use though they are
not) each part has the mean over its time; of the queue the most, too.
Why jobs wait is looked at where each part begins: how many wait for each reason at that instant.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from shunter.app.exports.occupancy import Occupancy, Spot
from shunter.app.replaying.state_document import wait_reasons
from shunter.app.run_history.job_counts import JobCounts
from shunter.core.cluster import UsableGpus
from shunter.core.state import FoldResult, State
from shunter.events.facts.cluster import CLUSTER_CHANGES
from shunter.events.facts.decisions import AllocationChanged, is_preemption
from shunter.events.kinds import KINDS, Event
from shunter.events.values.ids import JobId

PARTS: Final = 400
"""Into so many parts a run is cut: a picture is about twice as many pixels wide."""

_ABOUT_JOBS = frozenset(kind for kind in KINDS.values() if "job_id" in kind.__annotations__)


@dataclass(frozen=True, slots=True)
class Slice:
    """A job had a GPU from one instant to another.

    `ordinal` is its place among submissions.
    """

    spot: Spot
    from_us: int
    to_us: int
    ordinal: int


@dataclass
class Curves:
    """Listens to a log, and keeps what changes.

    `part_us` is the length of a part, at least 1; the lists have a value for each part.
    `preempted` counts preemptions in each part, `rules` the rules by which jobs were preempted.
    """

    part_us: int
    waiting: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    waiting_most: list[int] = field(default_factory=lambda: [0] * PARTS)
    running: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    gpus_used: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    gpus_up: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    preempted: list[int] = field(default_factory=lambda: [0] * PARTS)
    reasons: list[Counter[str]] = field(default_factory=list)
    rules: Counter[str] = field(default_factory=Counter)
    slices: list[Slice] = field(default_factory=list)
    _usable: UsableGpus = field(default_factory=UsableGpus)
    _counts: JobCounts = field(default_factory=JobCounts)
    _occupancy: Occupancy = field(default_factory=Occupancy)
    _since: dict[Spot, tuple[int, int]] = field(default_factory=dict)
    _preemptions: dict[JobId, int] = field(default_factory=dict)
    _last: dict[JobId, tuple[int, str]] = field(default_factory=dict)

    def passes(self, state: State, until_us: int) -> None:
        """Count what stays as it is up to an instant."""
        from_us, part_us = state.now_us, self.part_us
        while len(self.reasons) < PARTS and len(self.reasons) * part_us < until_us:
            self.reasons.append(wait_reasons(state))
        counts, used = self._counts, self._occupancy.used
        while from_us < until_us:
            part = self._part(from_us)
            end_us = until_us if part == PARTS - 1 else min(until_us, (part + 1) * part_us)
            spent_us = end_us - from_us
            self.waiting[part] += counts.waiting * spent_us
            self.running[part] += counts.running * spent_us
            self.gpus_used[part] += used * spent_us
            self.gpus_up[part] += self._usable.count * spent_us
            if counts.waiting > self.waiting_most[part]:
                self.waiting_most[part] = counts.waiting
            from_us = end_us

    def tell(self, event: Event, state: State, result: FoldResult) -> None:
        """Take what an event has changed."""
        kind = type(event)
        if kind in CLUSTER_CHANGES:
            self._usable.servers_changed(state.cluster)
        else:
            self._usable.holders_changed()
        if kind in _ABOUT_JOBS:
            self._job(event.job_id, event, state)  # type: ignore[union-attr]  # all of these have
        for job in (*result.launched, *result.displaced):
            self._job(job.job_id, event, state)
        if isinstance(event, AllocationChanged) and is_preemption(event):
            self._left(event, state)
        elif kind in _ABOUT_JOBS:
            self._stayed(event.job_id, state)  # type: ignore[union-attr]  # as above

    def close(self, state: State) -> None:
        """End what lasts where the log ends, and turn sums into means."""
        for spot in list(self._occupancy.left_over()):
            self._end(spot, state.now_us)
        for curve in (self.waiting, self.running, self.gpus_used, self.gpus_up):
            for part in range(PARTS):
                ends_us = min(state.now_us, (part + 1) * self.part_us)
                spent_us = ends_us - part * self.part_us
                curve[part] = curve[part] / spent_us if spent_us > 0 else 0.0
        while len(self.reasons) < PARTS:
            self.reasons.append(wait_reasons(state))

    def _part(self, at_us: int) -> int:
        return min(PARTS - 1, max(0, at_us) // self.part_us)

    def _job(self, job_id: JobId, event: Event, state: State) -> None:
        self._counts.note(job_id, state)
        left, taken = self._occupancy.take(job_id, event, state)
        for spot in left:
            self._end(spot, event.at_us)
        if taken:
            ordinal = state.jobs[job_id].ordinal
            for spot in taken:
                self._since[spot] = event.at_us, ordinal

    def _end(self, spot: Spot, at_us: int) -> None:
        from_us, ordinal = self._since.pop(spot)
        if at_us > from_us:
            self.slices.append(Slice(spot, from_us, at_us, ordinal))

    def _left(self, event: AllocationChanged, state: State) -> None:
        """Count a preemption, if the fold has counted one."""
        job = state.jobs.get(event.job_id)
        if job is not None and job.preemptions > self._preemptions.get(event.job_id, 0):
            self._preemptions[event.job_id] = job.preemptions
            self._last[event.job_id] = self._part(event.at_us), event.because.rule
            self.preempted[self._part(event.at_us)] += 1
            self.rules[event.because.rule] += 1

    def _stayed(self, job_id: JobId, state: State) -> None:
        """Take a preemption back that turned out to be none, as the fold does."""
        job = state.jobs.get(job_id)
        if job is not None and job.preemptions < self._preemptions.get(job_id, 0):
            self._preemptions[job_id] = job.preemptions
            part, rule = self._last[job_id]
            self.preempted[part] -= 1
            self.rules[rule] -= 1
