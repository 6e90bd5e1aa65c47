"""The port between Shunter's events and a memory that plays the events of another simulator.

That simulator has one event for all that happens at an instant: what ended is gone, what came
waits, then everybody is looked at. Observers do the first two; `advance` plays the event, and
`plan` tells what it changed. What did not come about (a refused change, a lost server) is seen at
the next one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shunter.core import Job, Observers, Plan, Rng, View
from shunter.core.planning import Placement
from shunter.events import (
    CLUSTER_CHANGES,
    JOB_ENDS,
    AttemptLost,
    Event,
    GpusReleased,
    JobHeld,
    JobReleased,
    JobSubmitted,
    LaunchFailed,
    PlanRejected,
    Target,
)
from shunter_peers.queueing.items import SECOND_US, Item, item_of
from shunter_peers.queueing.memory import PeerMemory
from shunter_peers.queueing.placements import seated

_LEFT = (AttemptLost, LaunchFailed, GpusReleased)
_HELD = (JobHeld, JobReleased)
UNKNOWN_S = 1 << 40


@dataclass(frozen=True)
class PeerPolicy:
    """Plays a simulator whose memory `make` returns, empty."""

    name: str
    make: Callable[[], PeerMemory]
    placement: Placement
    oracle: bool
    version: str = "1"

    def start(self, view: View) -> PeerMemory:
        """Return the memory of the cluster as it is; who holds GPUs runs."""
        memory = self.make()
        memory.capacity = _capacity(view)
        now_s = view.now_us // SECOND_US
        for job in view.jobs.values():
            self._meet(memory, job, view)
            if job.allocation.shares:
                memory.go_on(memory.items[job.job_id], now_s)
        return memory

    def observers(self, memory: PeerMemory) -> Observers:
        """Let jobs come and go; everything else waits for the event of the instant."""

        def submitted(event: JobSubmitted, view: View) -> None:
            memory.catch_up(event.at_us // SECOND_US)
            self._meet(memory, view.jobs[event.job_id], view)

        def ended(event: Any, view: View) -> None:
            now_s = event.at_us // SECOND_US
            memory.catch_up(now_s)
            item = memory.items.get(event.job_id)
            if item is not None:
                memory.leave(item, now_s)
            for job_id in view.unblocked:
                self._meet(memory, view.jobs[job_id], view)

        def left(event: Any, view: View) -> None:
            memory.catch_up(event.at_us // SECOND_US)
            item, job = memory.items.get(event.job_id), view.jobs[event.job_id]
            if item is not None and item.runs and not job.allocation.shares:
                memory.fall_back(item, event.at_us // SECOND_US)

        def held(event: Any, view: View) -> None:
            memory.catch_up(event.at_us // SECOND_US)
            item, job = memory.items.get(event.job_id), view.jobs[event.job_id]
            if item is None:
                self._meet(memory, job, view)
            elif not item.runs and not job.is_eligible:
                memory.leave(item, event.at_us // SECOND_US)

        def changed(event: Event, view: View) -> None:
            memory.catch_up(event.at_us // SECOND_US)
            memory.capacity = _capacity(view)
            memory.due = True

        told: dict[type[Event], Any] = {JobSubmitted: submitted}
        told.update(dict.fromkeys(JOB_ENDS, ended))
        told.update(dict.fromkeys(_LEFT, left))
        told.update(dict.fromkeys(_HELD, held))
        told.update(dict.fromkeys((*CLUSTER_CHANGES, PlanRejected), changed))
        return told

    def advance(self, memory: PeerMemory, view: View) -> None:
        """Play the event of this instant."""
        now_s = view.now_us // SECOND_US
        memory.catch_up(now_s)
        jobs = view.jobs
        for item in memory.started:
            job = jobs.get(item.job_id)
            if job is not None and item.runs and not job.allocation.shares:
                memory.fall_back(item, now_s)
        for item in memory.stopped:
            job = jobs.get(item.job_id)
            if job is not None and not item.runs and job.allocation.shares:
                memory.go_on(item, now_s)
        memory.event(now_s)

    def target(self, memory: PeerMemory, view: View) -> tuple[Target, ...] | None:
        """A peer policy has no targets."""
        return None

    def plan(self, memory: PeerMemory, view: View, rng: Rng) -> Plan:
        """Tell what the event changed."""
        return seated(
            view,
            self.placement,
            self.name,
            memory.started,
            memory.stopped,
            memory.waiting(),
        )

    def wake_at(self, memory: PeerMemory) -> int | None:
        """Return when the simulator looks though nothing arrives or ends."""
        alarm_s = memory.alarm_s
        return None if alarm_s is None else alarm_s * SECOND_US

    def settled(self, memory: PeerMemory) -> bool:
        """Say whether what happened is no event that could change anything."""
        return not memory.due

    def _meet(self, memory: PeerMemory, job: Job, view: View) -> None:
        """Let a job wait, or take it as it is, unless it may not have GPUs yet."""
        if job.is_eligible or job.allocation.shares:
            memory.arrive(self.item(job, view))

    def item(self, job: Job, view: View) -> Item:
        """Return a new item for a job."""
        item = item_of(job, view)
        if self.oracle:
            left_us = view.remaining_us(job)
            item.length_s = UNKNOWN_S if left_us is None else -(-left_us // SECOND_US)
        return item


def _capacity(view: View) -> int:
    return sum(pool.gpus_up for pool in view.pools.values())
