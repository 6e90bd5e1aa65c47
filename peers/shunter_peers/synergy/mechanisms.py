"""What each job gets in a round: proportional, greedy and tune, job by job in the given order.

`tune` gives a job its best demand if that fits, else the fair one. Where even that does not fit
beside free GPUs, jobs placed before it in this round are set to their fair demand until it does
(section 5.4 of the description, points C1 and C9 to C12).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from shunter.errors import PlanError
from shunter_peers.synergy.jobs import Demand, PlayedJob
from shunter_peers.synergy.servers import Parts, Placed, Servers

Mechanism = Literal["proportional", "tune", "greedy", "opt"]
MECHANISMS: Final[tuple[Mechanism, ...]] = get_args(Mechanism)


@dataclass(slots=True)
class Counts:
    """What happened so far.

    Rounds, jobs that others had to make room for, those others, and jobs that took the fair share
    because the best demand did not fit.
    """

    rounds: int = 0
    adjustments: int = 0
    peers: int = 0
    own_switches: int = 0


def place_fairly(jobs: Iterable[PlayedJob], servers: Servers) -> list[Placed]:
    """Place jobs with their fair demand."""
    found: list[Placed] = []
    for job in jobs:
        if job.gpus <= servers.free:
            _try(job, job.fair, 1.0, servers, found)
        elif not servers.free:
            break
    return found


def place_greedily(jobs: Iterable[PlayedJob], servers: Servers) -> list[Placed]:
    """Place jobs with their best demand, or not at all."""
    found: list[Placed] = []
    for job in jobs:
        if job.gpus <= servers.free:
            _try(job, job.best, job.best_speedup, servers, found)
        elif not servers.free:
            break
    return found


def place_tuned(jobs: Iterable[PlayedJob], servers: Servers, counts: Counts) -> list[Placed]:
    """Place jobs with their best demand, or the fair one, for which others shrink.

    Raises:
        PlanError: there is no room although they did; the simulator exits then.
    """
    found: list[Placed] = []
    for job in jobs:
        if job.gpus > servers.free:
            if not servers.free:
                break
            continue
        if _try(job, job.best, job.best_speedup, servers, found):
            continue
        demand = job.best
        if _exceeds(job.best, job.fair):
            demand, job.speedup = job.fair, 1.0
            counts.own_switches += 1
            if _try(job, demand, job.speedup, servers, found):
                continue
        _make_room(job, demand, servers, counts)
        if not _try(job, demand, job.speedup, servers, found):
            raise PlanError(
                f"job {job.job_id} of {job.gpus} GPUs finds no room although others went down to "
                "their fair share: the public simulator exits here"
            )
    return found


def _try(
    job: PlayedJob, demand: Demand, speedup: float, servers: Servers, found: list[Placed]
) -> bool:
    """Place a job with a demand, if it fits; say whether it does."""
    gpus = job.gpus
    cpus, memory_gb = demand[0] / gpus, demand[1] / gpus
    parts = servers.take(gpus, cpus, memory_gb)
    if parts is None:
        return False
    placed = Placed(job, cpus, memory_gb, speedup, parts)
    servers.seat(placed)
    found.append(placed)
    return True


def _make_room(job: PlayedJob, demand: Demand, servers: Servers, counts: Counts) -> None:
    """Set as many jobs to their fair demand as this one is short of something."""
    counts.adjustments += 1
    taken = _peers(job, demand, servers.roomiest(job.gpus), servers)
    counts.peers += len(taken)
    for placed in taken:
        peer = placed.job
        servers.give(placed.parts, placed.cpus, placed.memory_gb)
        if _exceeds((placed.cpus * peer.gpus, placed.memory_gb * peer.gpus), peer.fair):
            placed.cpus, placed.memory_gb = (each / peer.gpus for each in peer.fair)
            peer.speedup = 1.0
        placed.speedup = 1.0
        servers.put(placed.parts, placed.cpus, placed.memory_gb)


def _peers(job: PlayedJob, demand: Demand, parts: Parts, servers: Servers) -> list[Placed]:
    """Return who is to shrink on some servers: the least spread and largest first."""
    taken: dict[int, Placed] = {}
    tolerance = servers.tolerance
    for number, gpus in parts:
        short = demand[0] / job.gpus * gpus - servers.cpus[number]
        short_gb = demand[1] / job.gpus * gpus - servers.memory_gb[number]
        for placed in sorted(servers.tenants[number], key=_size):
            if short <= tolerance and short_gb <= tolerance:
                break
            there, peer = placed.gpus_on(number), placed.job
            short -= max(0.0, (placed.cpus - peer.fair[0] / peer.gpus) * there)
            short_gb -= max(0.0, (placed.memory_gb - peer.fair[1] / peer.gpus) * there)
            taken[id(placed)] = placed
    return list(taken.values())


def _size(placed: Placed) -> tuple[int, float, float]:
    return len(placed.parts), -placed.cpus, -placed.memory_gb


def _exceeds(demand: Sequence[float], fair: Sequence[float]) -> bool:
    """Say whether any component of a demand is more than fair."""
    return demand[0] > fair[0] or demand[1] > fair[1]
