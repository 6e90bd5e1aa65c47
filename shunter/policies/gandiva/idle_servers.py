"""Which GPUs are idle, and since when: what jobs may grow into (Gandiva, OSDI 2018, 3.2)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shunter.core.interfaces import Observer, Observers, both
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.facts.decisions import AllocationChanged, JobReshaped
from shunter.events.facts.execution import AttemptStarted
from shunter.events.facts.jobs import JOB_ENDS, JobResized, JobSubmitted
from shunter.events.values.causes import BY_POLICY
from shunter.events.values.ids import JobId, NodeName


@dataclass
class IdleServers:
    """Which GPUs of each server are free, since when, and who may take them.

    `looked_us` is the instant of the last plan, `guarded_us` when the first guard ends that keeps
    an elastic job at its size; None: no guard does.
    """

    free: dict[NodeName, int] = field(default_factory=dict)
    since_us: dict[NodeName, int] = field(default_factory=dict)
    elastic: dict[JobId, None] = field(default_factory=dict)
    looked_us: int = -1
    guarded_us: int | None = None

    def begin(self, view: View) -> None:
        """Take what is free as free from now on."""
        self.elastic = {name: None for name, job in view.jobs.items() if _is_elastic(job)}
        self.note(view)

    def note(self, view: View) -> None:
        """Note which guards hold, and what is free now: since now, where that is new."""
        self.guarded_us = _first_end(view, self.elastic)
        for pool in view.pools.values():
            for server in pool.servers:
                self._note(server.name, pool.free[server.position], view.now_us)

    def beside(self, others: Observers, touched: Observer) -> Observers:
        """Return other observers with its own: they follow what is given to jobs.

        `touched` is told what may lead to another plan: elastic jobs that can shrink from now on.
        """

        def given(event: AllocationChanged | JobReshaped, view: View) -> None:
            job = view.jobs[event.job_id]
            for share in (*job.held.shares, *event.allocation.shares):
                server = view.cluster.servers[share.node]
                if share.gpu_mask and server.is_up:
                    pool = view.pools[server.configuration.gpu_type]
                    self._note(share.node, pool.free[server.position], event.at_us)

        def submitted(event: JobSubmitted, view: View) -> None:
            if _is_elastic(view.jobs[event.job_id]):
                self.elastic[event.job_id] = None

        def ended(event: Any, view: View) -> None:
            self.elastic.pop(event.job_id, None)

        def started(event: AttemptStarted, view: View) -> None:
            if event.job_id in self.elastic:
                touched(event, view)

        def resized(event: JobResized, view: View) -> None:
            if event.by != BY_POLICY:
                touched(event, view)

        own: dict[Any, Any] = {
            **dict.fromkeys(JOB_ENDS, ended),
            **dict.fromkeys((AllocationChanged, JobReshaped), given),
            JobSubmitted: submitted,
            AttemptStarted: started,
            JobResized: resized,
        }
        return both(others, own)

    def wake_at(self, after_us: int) -> int | None:
        """Return when GPUs have been idle for long enough, or a guard ends.

        None: never. What an instant brings is not lost where a guard keeps jobs from it: they are
        looked at again as it ends.
        """
        if not self.elastic:
            return None
        due = [self.since_us[node] + after_us for node, mask in self.free.items() if mask]
        if self.guarded_us is not None:
            due.append(self.guarded_us)
        return min((at_us for at_us in due if at_us > self.looked_us), default=None)

    def _note(self, node: NodeName, mask: int, at_us: int) -> None:
        if self.free.get(node) != mask:
            self.free[node], self.since_us[node] = mask, at_us


def _first_end(view: View, jobs: Iterable[JobId]) -> int | None:
    """Return when the first guard ends that keeps one of these jobs where it is."""
    guards, now_us = view.guards, view.now_us
    ends = [
        guards.changes_at(job, now_us)
        for job in (view.jobs[name] for name in jobs)
        if guards.pinned_by(job, now_us)
    ]
    return min((end_us for end_us in ends if end_us is not None), default=None)


def _is_elastic(job: Job) -> bool:
    return job.submitted_spec.is_elastic
