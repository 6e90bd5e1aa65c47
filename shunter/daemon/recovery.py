"""After a start: what state says is decided against what the backend says is true.

For every attempt that holds GPUs there is one question: did it ever begin? If there is a trace of
it, it is watched again and gets its last order once more, since nobody knows whether that arrived:
every order may be repeated. If there is none, it is launched; one that must go is fenced instead.

    phase        trace of the attempt           no trace
    launching    watch                          launch
    running      watch, stop or continue        watch, fence (its records are gone)
    suspending   watch, suspend or migrate      watch, fence
    ending       watch, terminate               watch, fence

A fenced attempt never begins, and the backend says so; one that began just then is killed. One that
had begun by the log is reported lost. One that was set aside is watched and fenced, whatever it
left. What runs and belongs to no attempt that holds GPUs is ended, each by itself: one fence for
all would bar attempts that the log has yet to number. Those it never numbered are reported.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

from shunter.core import (
    ENDING,
    LAUNCHING,
    SUSPENDING,
    Continue,
    Effect,
    Fence,
    Job,
    Migrate,
    SetAside,
    ShareTurns,
    State,
    Stop,
    SuspendAttempt,
    Terminate,
    Weigh,
    launch_of,
    stays_in_place,
)
from shunter.daemon.backends import LiveBackend
from shunter.events import Allocation, GpusTaken, JobId, NodeName, PastJobs, Share, Sharing

Key = tuple[str, int]
_TRACES = ("starting", "running", "ended", "lost")


@dataclass(slots=True)
class Adoption:
    """An attempt to be watched, and what of it the log knows already."""

    job_id: JobId
    attempt: int
    started: bool
    noted: Mapping[NodeName, int]
    on: Allocation
    is_set_aside: bool = False


@dataclass(slots=True)
class Recovery:
    """What settles the difference between what is decided and what is true.

    `unknown` are the attempts that run though the log never gave their numbers, `ended` those that
    ended while no scheduler was there, which the log says as soon as it goes on.
    """

    adoptions: list[Adoption] = field(default_factory=list)
    orders: list[Effect] = field(default_factory=list)
    unknown: list[Key] = field(default_factory=list)
    ended: list[Key] = field(default_factory=list)

    def adopt(self, backend: LiveBackend) -> None:
        """Have attempts of earlier terms watched; nothing happens to them by it."""
        for one in self.adoptions:
            backend.adopt(
                one.job_id,
                one.attempt,
                started=one.started,
                noted=one.noted,
                on=one.on,
                is_set_aside=one.is_set_aside,
            )

    async def settle(self, backend: LiveBackend, now_us: int) -> None:
        """Give the orders whose fate is not known; the term must be durable."""
        await backend.perform(self.orders, now_us)


def holding(state: State) -> list[tuple[JobId, int]]:
    """Return the attempts that hold GPUs, of which it must be known what they are at."""
    return [(job_id, job.attempt) for job_id, job in state.jobs.items() if job.since_us is not None]


def recovery_of(
    state: State,
    past: PastJobs,
    inventory: Sequence[Mapping[str, Any]],
    silent: Collection[NodeName] = (),
) -> Recovery:
    """Return what is to be done, given all that is true and how past jobs ended.

    Of the attempts of a server that is `silent` nothing is known, so they may run.
    """
    found: dict[Key, str] = {(one["job"], one["attempt"]): one["state"] for one in inventory}
    recovery = Recovery()
    for job in state.jobs.values():
        if job.since_us is not None:
            is_hidden = any(share.node in silent for share in job.held.shares)
            unseen = "running" if is_hidden else "absent"
            _settle(recovery, job, found.pop((job.job_id, job.attempt), unseen))
    for (job_id, attempt), standing in found.items():
        if standing in ("starting", "running"):
            recovery.orders.append(Fence(JobId(job_id), attempt, is_alone=True))
            if not _was_given(state, past, JobId(job_id), attempt):
                recovery.unknown.append((job_id, attempt))
    return recovery


def _was_given(state: State, past: PastJobs, job_id: JobId, attempt: int) -> bool:
    """Say whether the log may have ordered an attempt; of ended jobs it has any."""
    job = state.jobs.get(job_id)
    return past.outcome(job_id) is not None if job is None else attempt <= job.attempt


def _settle(recovery: Recovery, job: Job, standing: str) -> None:
    job_id, attempt = job.job_id, job.attempt
    started = job.working_since_us is not None
    noted = {NodeName(""): job.notes, **dict(job.notes_on)} if started else {}
    if job.set_aside == attempt:
        recovery.adoptions.append(
            Adoption(job_id, attempt, started=False, noted={}, on=job.held, is_set_aside=True)
        )
        recovery.orders.append(SetAside(job_id, attempt))
    elif standing in _TRACES:
        recovery.adoptions.append(Adoption(job_id, attempt, started, noted, job.held))
        if standing in ("ended", "lost"):
            recovery.ended.append((job_id, attempt))
        if job.phase is ENDING:
            recovery.orders.append(Terminate(job_id, attempt))
        elif job.phase is SUSPENDING:
            target = job.allocation
            order = (
                Migrate(job_id, attempt, target)
                if target.shares
                else SuspendAttempt(job_id, attempt)
            )
            recovery.orders.append(order)
        elif stays_in_place(job):
            recovery.orders.append((Stop if job.is_on_hold else Continue)(job_id, attempt))
        if job.held.sharing is Sharing.sliced:
            recovery.orders.append(Weigh(job_id, attempt, job.turn_weight))
            if job.packed_with and job_id == job.pack_id:  # once for each pack
                recovery.orders.append(ShareTurns(job_id, attempt, job.packed_with))
    elif job.phase is LAUNCHING:
        recovery.orders.append(launch_of(job))
        if job.is_on_hold and stays_in_place(job):
            recovery.orders.append(Stop(job_id, attempt))
    else:
        recovery.adoptions.append(Adoption(job_id, attempt, started, noted, job.held))
        recovery.orders.append(Fence(job_id, attempt))


@runtime_checkable
class TellsTakenResources(Protocol):
    """A backend that tells what of its servers others hold."""

    def recall_taken(self, told: Sequence[Share]) -> None:
        """Say what an earlier term has found in the hands of others, server by server."""

    async def tell_taken(self) -> None:
        """Tell what others hold now, as far as that is known soon."""


def recall_taken_resources(backend: LiveBackend, state: State) -> None:
    """Have a backend go on from what was told; one that shares nothing gives back."""
    told = [
        Share(name, server.taken, server.taken_cpus_milli, server.taken_memory_mb)
        for name, server in state.cluster.servers.items()
        if server.is_partly_taken
    ]
    if isinstance(backend, TellsTakenResources):
        backend.recall_taken(told)
        return
    for share in told:
        backend.post(
            partial(GpusTaken, node=share.node, gpu_mask=0, cause="its backend shares nothing")
        )


async def tell_taken_resources(backend: LiveBackend) -> None:
    """Have a backend tell what others hold, so that the first plan knows it."""
    if isinstance(backend, TellsTakenResources):
        await backend.tell_taken()
