"""The whole of a config file as one strict model; docs/reference/config.md is made from it."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from shunter.config.cluster import ClusterSection
from shunter.config.keys import Fault
from shunter.config.live import BackendSection, ServerSection
from shunter.config.policy import PolicySection
from shunter.config.section import Count, Section, Share
from shunter.config.simulation import SimulationSection
from shunter.config.workload import NO_WORKLOAD, WorkloadSection
from shunter.core.sizing import Mechanism
from shunter.errors import extra_hint
from shunter.policies import why_unusable

DEFAULT_QUEUE: Final = "default"
"""Where a job goes that names no queue."""


class QueueSection(Section):
    """A queue: who may use it, and how many GPUs it may hold.

    The queue `default` takes the jobs that name none. It is there also where the config does not
    name it; `[queues.default]` with `quota_gpus = 0` turns it off.
    """

    users: tuple[str, ...] = Field(default=(), description="who may submit to it; empty: everybody")
    quota_gpus: Count | None = Field(
        default=None,
        description="GPUs its jobs may hold at once; no bound if left out, 0 closes it",
    )
    weight: Share = Field(default=1.0, description="its share relative to the others")


class LogSection(Section):
    """Where events go. No part of it changes a decision."""

    url: str = Field(
        default="none:",
        min_length=1,
        description="'none:' (nothing is kept), 'memory:', a path, or sqlite+aiosqlite:///PATH; "
        "a live cluster and `shunter why` need a path",
    )
    mode: Literal["0600", "0640", "0644", "0660", "0664"] | None = Field(
        default=None,
        description="who may read and write the file; left out: its owner alone (0600) if live, "
        "whom the umask lets if simulated",
    )
    reasons: Literal["all", "transitions"] = Field(
        default="transitions",
        description="record why jobs wait at every round, or only where it changes",
    )
    snapshot_every: Count = Field(
        default=0,
        description="events between snapshots, which make `why` quick; 0: 25000 or more in a "
        "simulation, so that they cost next to nothing, 5000 live",
    )
    seal_after: Count = Field(
        default=50_000,
        description="a live log compresses events with so many behind them; SQL sees the others",
    )

    @property
    def permissions(self) -> int | None:
        """The mode as a number, None if none is named."""
        return None if self.mode is None else int(self.mode, 8)


class Config(Section):
    """Everything a run is made from."""

    schema_version: Literal[1] = Field(
        default=1, alias="schema", description="version of this format"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        default=0, description="names all chance: generated jobs, failures, policies that draw"
    )
    cluster: ClusterSection = Field(description="the servers")
    workload: WorkloadSection = Field(
        default=NO_WORKLOAD, description="the jobs of a simulation, which needs this table"
    )
    policy: PolicySection = Field(default=PolicySection.usual(), description="who decides")
    queues: dict[str, QueueSection] = Field(
        default={},
        description="queues by name; 'default' is there unnamed, unless its quota_gpus is 0",
    )
    simulation: SimulationSection = Field(
        default=SimulationSection.usual(), description="the simulated world"
    )
    backend: BackendSection = Field(default=BackendSection.usual(), description="where jobs run")
    server: ServerSection = Field(
        default=ServerSection.usual(),
        description="who may talk to a live cluster, and where",
    )
    log: LogSection = Field(default=LogSection.usual(), description="where events go")

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The queues that take live jobs; a `default` that is closed is none."""
        usual = self.queues.get(DEFAULT_QUEUE, QueueSection())
        named = tuple(self.queues)
        if usual.quota_gpus == 0:
            return tuple(name for name in named if name != DEFAULT_QUEUE)
        return named if DEFAULT_QUEUE in named else (*named, DEFAULT_QUEUE)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.backend.is_live:
            if self.simulation != SimulationSection.usual():
                raise ValueError(
                    "[simulation] is set, and [backend] is no simulation: leave it out"
                )
            if self.log.url in ("none:", "memory:"):
                raise ValueError("log.url: expected a path: a live cluster lives on by its log")
        if self.simulation.has_leases and self.policy.trigger == "event":
            raise ValueError("[simulation.lease] needs rounds: expected policy.trigger = 'round'")
        if self.simulation.costs.gpu_copy_mb_s and self.workload.factors is None:
            raise ValueError(
                "simulation.costs.gpu_copy_mb_s is set: expected workload.factors, a table with "
                "memory cycles of models"
            )
        if any(group.units for group in self.cluster.nodes):
            self._check_units()
        if self.policy.slicing is not None:
            if self.backend.launches_wait:
                raise ValueError(
                    "policy.slicing: Slurm gives no GPU to two jobs, so none take turns with "
                    "[backend.slurm] mode = 'per-job': take mode = 'pilot', or leave it out"
                )
            if self.simulation.has_leases:
                raise ValueError(
                    "policy.slicing: turns are no leases: leave it or [simulation.lease] out"
                )
        # Of a cluster file that could not be read the racks are not known, and it is said already.
        is_known = self.cluster.file is None
        if self.simulation.failures.rack_mtbf and is_known and not self.cluster.racks:
            raise ValueError(
                "simulation.failures.rack_mtbf is set, and no group of cluster.nodes has a rack"
            )
        return self

    def _check_units(self) -> None:
        if self.backend.kind == "slurm":
            raise ValueError(
                "cluster.nodes has units, and the backend 'slurm' gives out GPUs alone: take the "
                "CPU servers out, or reach them by 'ssh'"
            )
        if self.simulation.world:
            raise ValueError(
                f"cluster.nodes has units, which simulation.world = {self.simulation.world!r} "
                "does not know: take one of them out"
            )


def unsized(config: Config | None) -> list[Fault]:
    """Return what keeps jobs from being sized as configured."""
    if config is None:
        return []
    sizing, limit = config.policy.sizing, config.policy.solve_limit
    if limit is not None and sizing is not Mechanism.opt:
        return [Fault(("policy", "solve_limit"), "expected none: only sizing 'opt' searches")]
    if config.policy.correct_beyond is not None and sizing in (None, Mechanism.proportional):
        what = "expected none: only sizing 'greedy', 'tune' and 'opt' go by a table"
        return [Fault(("policy", "correct_beyond"), what)]
    if sizing is None:
        return []
    if sizing is Mechanism.opt and (missing := why_unusable()):
        what = f"'opt' needs the package highspy, {missing}; "
        what += f"{extra_hint('solvers')}; 'tune' needs none"
        return [Fault(("policy", "sizing"), what)]
    slurm = config.backend.slurm
    if config.backend.kind == "slurm" and slurm is not None and slurm.mode == "per-job":
        what = (
            'expected none, for [backend.slurm] mode = "per-job" leaves CPUs and memory to Slurm, '
            'which does not change them while a job runs; take mode = "pilot", or leave the key out'
        )
        return [Fault(("policy", "sizing"), what)]
    return [
        Fault(("cluster", "nodes", number), f"expected {key}, by which policy.sizing sizes jobs")
        for number, group in enumerate(config.cluster.nodes)
        for key, has in (("cpus", group.cpus), ("memory_gb", group.memory_gb))
        if group.gpus and not has
    ]
