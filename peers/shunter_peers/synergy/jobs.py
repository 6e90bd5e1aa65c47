"""The jobs of the public Synergy simulator: what each has left, and what it would like to have.

A demand is CPU cores and GB for the whole job. The best one is the least with which its model is as
fast as it gets; the fair one is its GPUs' part of a server. What is more than one server has is
clipped, and with the cores goes a part of the speedup, in proportion; jobs of more GPUs than a
server has get no speedup at all (section 5.2 of the description, and its point C14).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from shunter.core import Job
from shunter.errors import ConfigError
from shunter.events import JobId, JobSpec
from shunter.workloads import published_models

SECOND_US = 1_000_000
Demand = tuple[float, float]
"""CPU cores and GB."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A model: seconds of an iteration at the fair share, and its best demand.

    The demand is that of a GPU, and has the `speedup`. `table` are speeds relative to that at the
    fair share, by the points of the grid.
    """

    iter_s: float
    cpus: float
    memory_gb: float
    speedup: float
    table: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Server:
    """What every server has."""

    gpus: int = 8
    cpus: float = 24.0
    memory_gb: float = 500.0

    @property
    def cpus_per_gpu(self) -> float:
        """The cores that are fair for a GPU."""
        return self.cpus / self.gpus

    @property
    def memory_gb_per_gpu(self) -> float:
        """The memory that is fair for a GPU, in GB."""
        return self.memory_gb / self.gpus


@dataclass(slots=True)
class PlayedJob:
    """A job that has arrived and not ended.

    `left` and `total` are iterations. `speedup` is the one that the order reads: what the last
    round left, or the best. `idle_since_s` is the end of its last lease, or its arrival;
    `is_urgent` that it once was without one for too long.
    """

    job_id: JobId
    ordinal: int
    model: str
    gpus: int
    total: int
    left: int
    arrival_s: float
    iter_s: float
    best: Demand
    fair: Demand
    best_speedup: float
    speedup: float
    attained_s: int = 0
    idle_since_s: float = 0.0
    is_urgent: bool = False


@cache
def profiles(cpus_per_gpu: float) -> Mapping[str, Profile]:
    """Return the published models by name, on servers with so many cores for a GPU.

    Raises:
        ConfigError: nothing is published for such servers.
    """
    ratio = f"{cpus_per_gpu:g}"
    found: dict[str, Profile] = {}
    for name, model in published_models().items():
        there = model["on_servers"].get(ratio)
        if there is None:
            raise ConfigError(
                f"synergy_peer: the servers have {ratio} CPUs for each GPU: expected one of "
                f"{', '.join(model['on_servers'])}, for which models are published"
            )
        found[name] = Profile(
            there["iter_time_s"],
            there["cpus"],
            there["memory_gb"],
            there["speedup"],
            tuple(tuple(row) for row in model["table"]),
        )
    return found


def played_job(job_id: JobId, ordinal: int, spec: JobSpec, at_us: int, server: Server) -> PlayedJob:
    """Return a job that has just arrived.

    Raises:
        ConfigError: its model is not published, or it has no iterations or no GPUs.
    """
    known = profiles(server.cpus_per_gpu)
    profile = known.get(spec.model)
    if profile is None:
        raise ConfigError(
            f"job {job_id}: synergy_peer knows nothing of model {spec.model!r}: expected one of "
            f"{', '.join(known)}"
        )
    if not spec.total_steps or not spec.gpus:
        raise ConfigError(
            f"job {job_id}: synergy_peer counts iterations on GPUs: expected both total_steps and "
            "gpus to be 1 or more"
        )
    best, speedup = _capped(profile, spec.gpus, server)
    arrival_s = at_us / SECOND_US
    return PlayedJob(
        job_id,
        ordinal,
        spec.model,
        spec.gpus,
        spec.total_steps,
        spec.total_steps,
        arrival_s,
        profile.iter_s,
        best,
        (server.cpus_per_gpu * spec.gpus, server.memory_gb_per_gpu * spec.gpus),
        speedup,
        speedup,
        idle_since_s=arrival_s,
    )


def of_view(job: Job, server: Server) -> PlayedJob:
    """Return a job of a view as it arrived."""
    return played_job(job.job_id, job.ordinal, job.spec, job.submitted_us, server)


def _capped(profile: Profile, gpus: int, server: Server) -> tuple[Demand, float]:
    """Return the best demand of a job that servers can meet, and its speedup."""
    wanted, memory_gb = profile.cpus * gpus, profile.memory_gb * gpus
    fair, fair_gb = server.cpus_per_gpu * gpus, server.memory_gb_per_gpu * gpus
    if gpus > server.gpus:
        cpus = fair if wanted > server.cpus else wanted
        return (cpus, fair_gb if memory_gb > server.memory_gb else memory_gb), 1.0
    cpus, speedup = min(wanted, server.cpus), profile.speedup
    if wanted > server.cpus:
        speedup = 1 + (speedup - 1) * (cpus - fair) / (wanted - fair)
    return (float(cpus), float(min(memory_gb, server.memory_gb))), float(speedup)
