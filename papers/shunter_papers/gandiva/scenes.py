"""The jobs and clusters of Gandiva's comparison.

`feedback`: jobs of up to four GPUs that keep arriving with the durations and gang sizes of the
Philly trace, at several loads. The paper's jobs are not public. `shares`: six equal jobs on one
server of four GPUs; four are there from the beginning, two come later, and two of the first end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from shunter.config import LoadedConfig, make_config
from shunter.events import JobId, JobSpec
from shunter.workloads import QualityReport, Trace, TraceJob, load_factors
from shunter_papers.gandiva.figures import BATCH_S, MEMORY_SWING

GPUS_PER_SERVER: Final = 4
QUANTUM_S: Final = 60
BASELINE: Final = "fifo"
GANDIVA: Final = "gandiva"
POLICIES: Final = (BASELINE, GANDIVA)
LOADS: Final = (0.7, 0.9, 1.0, 1.1, 1.3, 1.5)
"""Offered GPU time over the cluster's: the ratio hangs on it, so it is swept."""

COSTS: Final = {"turn": "0.1s"}
"""What suspending one image model and resuming another takes (paper: about 100 ms in all)."""

MINUTE_US: Final = 60_000_000


@dataclass(frozen=True)
class Form:
    """A size of the comparison."""

    name: Literal["full", "quick"]
    servers: int
    jobs: int
    searches: tuple[int, int]
    """How many AutoML searches run as described, and how many of these with something else."""

    @property
    def gpus(self) -> int:
        """All GPUs of the cluster."""
        return self.servers * GPUS_PER_SERVER


FULL: Final = Form("full", 45, 3000, (200, 40))
"""The 180 GPUs of the slides."""

QUICK: Final = Form("quick", 12, 800, (20, 4))


@dataclass(frozen=True)
class Feedback:
    """Jobs that keep arriving at a load."""

    form: Form
    load: float
    jobs: int
    seed: int

    def config(self, policy: str) -> LoadedConfig:
        """Return the config of a run."""
        made = {
            "kind": "philly-like",
            "jobs": self.jobs,
            "load": self.load,
            "gpus_max": GPUS_PER_SERVER,
        }
        return _config(self.seed, self.form.servers, policy, {"generate": made})


@dataclass(frozen=True)
class Phase:
    """A part of the run of six jobs: between two minutes, who is there."""

    begin_min: int
    end_min: int
    jobs: tuple[JobId, ...]
    expected: float

    @property
    def span_us(self) -> tuple[int, int]:
        """The instants at which it begins and ends."""
        return self.begin_min * MINUTE_US, self.end_min * MINUTE_US


_EARLY: Final[Sequence[JobId]] = [JobId(name) for name in "abcd"]
_LATE: Final[Sequence[JobId]] = [JobId(name) for name in "ef"]

PHASES: Final = (
    Phase(0, 30, (*_EARLY,), 1.0),
    Phase(30, 60, (*_EARLY, *_LATE), GPUS_PER_SERVER / 6),
    Phase(62, 90, (*_EARLY[2:], *_LATE), 1.0),
)
"""Whole periods of the turns: three minutes, in each of which each of six jobs has two."""


BATCHES_MS: Final = (530, 590, 610, 670, 710, 730)
"""Mini-batches of which no quantum is a multiple, so that jobs are anywhere in one when it ends."""

LEAST_MB: Final = 100
"""What they hold of a GPU at a boundary; only how often the most is as much matters for ratios."""

COPY_MB_S: Final = 10_000
"""About what PCIe 3.0 with 16 lanes copies."""


def six_jobs() -> Trace:
    """Return the six jobs; the first two end in the turn after minute 60."""
    ends_us = (30 + 20) * MINUTE_US
    rows = [(name, 0, ends_us if name in _EARLY[:2] else 120 * MINUTE_US) for name in _EARLY]
    rows += [(name, 30 * MINUTE_US, 120 * MINUTE_US) for name in _LATE]
    jobs = [
        TraceJob(name, submit_us, _spec(work_us // (batch_ms * 1000)), work_us)
        for (name, submit_us, work_us), batch_ms in zip(rows, BATCHES_MS, strict=True)
    ]
    return Trace(
        "six jobs on four GPUs",
        "generated",
        jobs,
        "",
        QualityReport(len(jobs), len(jobs), len(jobs)),
    )


def six_config() -> LoadedConfig:
    """Return the config in which they run."""
    return _config(0, 1, GANDIVA, _SIX)


def copying_config(turn_ends: Literal["at_boundary", "at_once"]) -> LoadedConfig:
    """Return the same where a change of hands takes what copying memory does."""
    simulation = {"costs": {"gpu_copy_mb_s": COPY_MB_S}, "turn_ends": turn_ends}
    workload = {**_SIX, "factors": "builtin:published"}
    cycle = f"least_mb = {LEAST_MB}, most_mb = {MEMORY_SWING * LEAST_MB}, batch_s = {BATCH_S}"
    table = f"[models.{_MODEL}]\nmemory_cycle = {{ {cycle} }}\n"
    file = load_factors("the slides' swing", lambda _: table)
    return replace(_config(0, 1, GANDIVA, workload, simulation), factor_file=file)


_MODEL: Final = "resnet50"
_SIX: Final[dict[str, Any]] = {"generate": {"kind": "philly-like", "jobs": 6}}


def _spec(steps: int) -> JobSpec:
    return JobSpec(gpus=1, model=_MODEL, total_steps=steps)


def _config(
    seed: int,
    servers: int,
    policy: str,
    workload: dict[str, Any],
    simulation: Mapping[str, Any] = MappingProxyType({"costs": COSTS}),
) -> LoadedConfig:
    section: dict[str, Any] = {"name": policy, "trigger": "event"}
    if policy == GANDIVA:
        section["slicing"] = {"quantum": f"{QUANTUM_S}s"}
    return make_config(
        {
            "schema": 1,
            "seed": seed,
            "cluster": {"nodes": [{"name": "gpu", "count": servers, "gpus": GPUS_PER_SERVER}]},
            "workload": workload,
            "policy": section,
            "simulation": dict(simulation),
            "log": {"url": "none:"},
        },
        "reproduce gandiva",
    )
