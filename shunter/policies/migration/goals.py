"""Why a running job may be moved: each goal names jobs and the servers that would be better.

`colocate`: gangs over several servers come to one. `lower_height`: who shares GPUs in turns comes
to free ones. `defragment`: who is on the server with the most free GPUs comes to others in use, so
that one becomes empty. `cheaper_type`: jobs of one GPU leave types that others wait for. `apart`:
who is slower than it was on the same type of GPU leaves its neighbours (Gandiva, OSDI 2018, 3.4,
and its slides). A goal is a function; another one is added to `GOALS`. One goal is not among them,
since it is not for the mover and frees a block by all of its moves or by none: `making_room.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from shunter.core.cluster import Server
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.allocation import Sharing
from shunter.events.values.ids import GpuType, NodeName
from shunter.events.values.trials import MILLION

Check = Callable[[Server], bool]


@dataclass(frozen=True)
class Wanted:
    """A move that would be good.

    Attributes:
        job: who moves.
        change: what verdicts remember it by, beside its model and type of GPU.
        is_wanted: whether a server would do.
    """

    job: Job
    change: str
    is_wanted: Check


@dataclass(frozen=True)
class GoalSettings:
    """What goals go by.

    Attributes:
        free_most: so many free GPUs at least make a server one to be emptied.
        cheaper: types of GPU, the cheapest first.
        slower: by which part a job has to be slower than it was, in millionths, to be moved away.
    """

    free_most: int
    cheaper: tuple[GpuType, ...]
    slower: int


class Scene(Protocol):
    """The servers as they would be with what the plan has drafted so far."""

    @property
    def servers(self) -> Mapping[NodeName, Server]:
        """The servers with GPUs that take jobs."""

    def free_on(self, node: NodeName) -> int:
        """Return how many GPUs of a server nobody was given."""

    def surplus_on(self, node: NodeName) -> int:
        """Return how many GPUs more than are shared in turns on a server its jobs want."""


Goal = Callable[[View, Scene, Sequence[Job], GoalSettings], Iterator[Wanted]]
"""Yields the moves it wants, the most urgent first; jobs are those that may be moved."""


def colocate(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring gangs over several servers to one."""
    for job in jobs:
        if job.allocation.is_spread:
            pieces = sorted((share.gpus for share in job.allocation.shares), reverse=True)
            yield Wanted(job, f"colocate {'+'.join(map(str, pieces))}", _of_type(view, job))


def lower_height(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring who shares GPUs in turns to free ones, the last submitted first."""
    for job in reversed(jobs):
        # One after the other: each sees what moves of this plan have left.
        is_sliced = job.allocation.sharing is Sharing.sliced and len(job.allocation.shares) == 1
        if is_sliced and scene.surplus_on(_node_of(job)) > 0:
            yield Wanted(job, "lower_height", _of_type(view, job))


def defragment(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring jobs from the server with the most free GPUs to others that are in use."""
    free = {name: scene.free_on(name) for name in scene.servers}
    used = {name for name, server in scene.servers.items() if free[name] < server.gpus_up}
    emptiest = max(
        (name for name in used if free[name] >= settings.free_most),
        key=lambda name: (free[name], -scene.servers[name].position),
        default=None,
    )
    if emptiest is None:
        return
    fuller = {name for name in used if free[name] < free[emptiest]}
    for job in jobs:
        nodes = {share.node for share in job.allocation.shares}
        if nodes == {emptiest}:
            yield Wanted(
                job,
                "defragment",
                _both(_of_type(view, job), lambda server: server.name in fuller),
            )


def cheaper_type(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring jobs of one GPU to cheaper types while anybody waits."""
    if not any(job.is_eligible for job in view.jobs.values()):
        return
    order = settings.cheaper
    for job in jobs:
        mine = _type_of(view, job)
        if job.spec.gpus != 1 or mine not in order:
            continue
        for gpu_type in order[: order.index(mine)]:
            yield Wanted(
                job,
                f"cheaper_type {gpu_type}",
                _is_type(gpu_type),
            )


def apart(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring jobs that are slower than they were away from their neighbours."""

    def is_empty(server: Server) -> bool:
        return scene.free_on(server.name) == server.gpus_up

    for job in jobs:
        best, now_us = job.best_batch, job.pace.batch_us_at(job.speed)
        if best is None or now_us is None or best.gpus != job.held.gpus:
            continue
        if now_us * MILLION > best.batch_us * (MILLION + settings.slower):
            yield Wanted(job, "apart", _both(_of_type(view, job), is_empty))


GOALS: Mapping[str, Goal] = {
    "colocate": colocate,
    "lower_height": lower_height,
    "apart": apart,
    "cheaper_type": cheaper_type,
    "defragment": defragment,
}
"""The goals in the order in which they are asked: jobs that are not co-located first."""

WITHOUT_GAIN = frozenset(("cheaper_type", "defragment"))
"""Goals by which a job need not be faster elsewhere; it must not be slower."""


def _of_type(view: View, job: Job) -> Check:
    return _is_type(_type_of(view, job))


def _is_type(gpu_type: GpuType) -> Check:
    return lambda server: server.configuration.gpu_type == gpu_type


def _both(one: Check, other: Check) -> Check:
    return lambda server: one(server) and other(server)


def _type_of(view: View, job: Job) -> GpuType:
    return view.cluster.servers[_node_of(job)].configuration.gpu_type


def _node_of(job: Job) -> NodeName:
    return job.allocation.shares[0].node
