"""How fast attempts were by their jobs' own contracts, while others came to their servers and went.

A live log tells no speeds, and a simulated world gives each job the speed that its contract says of
its placement and its neighbours. An attempt that ran t seconds where that is s did t x s of work:
both take s from `contract_speed`, so the same placement takes t again in that world.
"""

from collections.abc import Sequence
from typing import NamedTuple

from shunter.core.speeds.speed_model import contract_speed
from shunter.core.state import LAUNCHING, Job, State
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import JobId


class Pace(NamedTuple):
    """A speed from an instant on, of that with all GPUs near and alone."""

    from_us: int
    speed: float


class Paces:
    """The speeds of the attempts that run now of jobs with a contract."""

    def __init__(self) -> None:
        self._running: dict[JobId, list[Pace]] = {}

    def began(self, job: Job, state: State, at_us: int) -> list[Pace]:
        """Return the speeds of a new attempt, to which later ones are added.

        They are none where the job says nothing of distance and neighbours.
        """
        paces: list[Pace] = []
        if job.spec.has_curve or job.spec.interference:
            self._running[job.job_id] = paces
            _note(paces, job, state, at_us)
        return paces

    def update(self, state: State, at_us: int) -> None:
        """Note who is faster or slower now that something else runs."""
        for job_id, paces in list(self._running.items()):
            job = state.jobs.get(job_id)
            if job is None or not job.held.shares:
                del self._running[job_id]
            else:
                _note(paces, job, state, at_us)


def mean_speed(paces: Sequence[Pace], from_us: int, until_us: int) -> float:
    """Return how fast an attempt was on average from one instant to another.

    Args:
        paces: its speeds; none: it had all of its speed.
        from_us: the first instant; before the first of its speeds that one counts.
        until_us: the last instant; if it is not later, the speed at the first counts.
    """
    if not paces:
        return 1.0
    speed, done_us, since_us = paces[0].speed, 0.0, from_us
    for pace in paces:
        if pace.from_us > since_us:
            at_us = min(pace.from_us, until_us)
            done_us += max(0, at_us - since_us) * speed
            since_us = max(since_us, at_us)
            if pace.from_us >= until_us:
                break
        speed = pace.speed
    if until_us <= from_us:
        return speed
    return (done_us + (until_us - since_us) * speed) / (until_us - from_us)


def _note(paces: list[Pace], job: Job, state: State, at_us: int) -> None:
    servers = state.cluster.servers
    nodes = {share.node: servers[share.node].configuration for share in job.held.shares}
    around = _neighbours(job, state) if job.spec.interference else ()
    speed = contract_speed(job.spec, job.held, around, nodes)
    if not paces or paces[-1].speed != speed:
        paces.append(Pace(at_us, speed))


def _neighbours(job: Job, state: State) -> list[Allocation]:
    """Return where others run on other GPUs of a job's servers."""
    mine = {share.node: share.gpu_mask for share in job.held.shares}
    found = []
    for other in state.jobs.values():
        shares = other.held.shares
        if other is job or not _runs(other) or all(share.node not in mine for share in shares):
            continue
        if not any(share.gpu_mask & mine.get(share.node, 0) for share in shares):
            found.append(other.held)
    return found


def _runs(job: Job) -> bool:
    """Say whether a job is on its GPUs: from its launch on, as in simulations."""
    works = job.working_since_us is not None and job.speed > 0
    return bool(job.gpus) and (works or job.phase is LAUNCHING)
