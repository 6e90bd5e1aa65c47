"""The jobs, clusters and contenders of Synergy's comparison.

Two settings: `peer` is the public simulator, faults included, by the plug-in; `corrected` is our
own policy, in rounds of the same 300 s. The peer setting plays the slides' jobs only: it ends with
the first round that has no job, which arrivals over weeks do not survive.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from shunter.config import LoadedConfig, make_config
from shunter.workloads import gpu_s_mean
from shunter_papers.synergy.figures import SLIDES_H, Measure
from shunter_papers.windows import middle_of

Setting = Literal["peer", "corrected"]
Solver = Literal["highs", "exact"]
"""Who solves `opt`: HiGHS, or in the peer setting alone a method of our own."""

Split = tuple[float, float, float]
"""Percent of image, language and speech models."""

GPUS_PER_SERVER: Final = 8
WIDEST_GANG: Final = 8
PAPER_GPUS: Final = 128


@dataclass(frozen=True)
class Contender:
    """A mechanism; one that `solves` needs HiGHS in the corrected setting."""

    mechanism: str
    solves: bool = False

    def settings(self, solver: Solver) -> tuple[Setting, ...]:
        """Return the settings in which it can be played."""
        return ("peer",) if self.solves and solver != "highs" else ("peer", "corrected")


CONTENDERS: Final = (
    Contender("proportional"),
    Contender("tune"),
    Contender("opt", solves=True),
)
"""The mechanisms of the slides; the first is what the others are compared with."""

BASELINE: Final = CONTENDERS[0].mechanism
TUNE: Final = CONTENDERS[1].mechanism


@dataclass(frozen=True)
class Form:
    """A size of the comparison: servers of 8 GPUs, and how many jobs arrive."""

    name: Literal["full", "quick"]
    servers: int
    jobs: int

    @property
    def gpus(self) -> int:
        """All GPUs of the cluster."""
        return self.servers * GPUS_PER_SERVER

    @property
    def part(self) -> float:
        """What the cluster is of the paper's."""
        return self.gpus / PAPER_GPUS


FULL: Final = Form("full", 16, 8000)
QUICK: Final = Form("quick", 4, 2000)
SLIDES_SERVERS: Final = 4

ORDERS: Final = ("fifo", "srtf", "las")
RATES: Final = (6.0, 7.5, 8.0, 9.0)
"""Jobs of one GPU an hour, on the paper's 128 GPUs."""

GANG_RATES: Final = (3.0, 4.0, 4.5)
"""Jobs an hour where some are gangs."""

USUAL_SPLIT: Final[Split] = (20.0, 70.0, 10.0)
MIXES: Final[tuple[Split, ...]] = (
    (0.0, 100.0, 0.0),
    (10.0, 80.0, 10.0),
    (20.0, 70.0, 10.0),
    (30.0, 60.0, 10.0),
    (30.0, 40.0, 30.0),
    (40.0, 20.0, 40.0),
    (50.0, 0.0, 50.0),
)
"""The splits of the public code's experiment: ever more jobs that want CPUs."""

MIX_RATES: Final = (8.0,)
MIX_ORDER: Final = "fifo"


@dataclass(frozen=True)
class Slide:
    """The jobs of some figures on the slides; `trace` of None: made-up ones stand in."""

    name: Literal["static", "dynamic"]
    trace: Path | None
    seed: int

    @property
    def order(self) -> str:
        """The order in which the slides' figures have these jobs."""
        return "fifo" if self.name == "static" else "srtf"

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What the slides tell of them."""
        return tuple(measure for order, measure in SLIDES_H if order == self.order)

    def config(self, mechanism: str, setting: Setting, solver: Solver) -> LoadedConfig:
        """Return the config of a run."""
        workload: dict[str, object] = {"generate": self._made_up()}
        if self.trace is not None:
            workload = {"trace": str(self.trace), "format": "synergy"}
        if setting == "corrected":
            return _corrected(self.seed, SLIDES_SERVERS, workload, self.order, mechanism)
        params: dict[str, object] = {"order": self.order, "mechanism": mechanism, "solver": solver}
        return make_config(
            {
                **_tree(self.seed, SLIDES_SERVERS, workload),
                "policy": {
                    "name": "synergy_peer",
                    "trigger": "event",
                    "params": {"synergy_peer": params},
                },
                "simulation": {"world": "synergy_rounds"},
            },
            "reproduce synergy",
        )

    def _made_up(self) -> dict[str, object]:
        """Return jobs like those of the public trace: as many, as long, of such models."""
        is_static = self.name == "static"
        return {
            "kind": "synergy-like",
            "jobs": 100,
            "jobs_per_hour": 3_600_000.0 if is_static else 30.0,
            "gpus_max": 1,
            "split": [60, 30, 10] if is_static else [35, 64, 1],
            "short": True,
        }


@dataclass(frozen=True)
class Arrivals:
    """Jobs that keep arriving: `rate` an hour on the paper's 128 GPUs."""

    form: Form
    rate: float
    split: Split
    jobs: int
    seed: int
    gangs: bool = False

    @property
    def jobs_per_hour(self) -> float:
        """The rate on the cluster of this form."""
        return self.rate * self.form.part

    @property
    def widest(self) -> int:
        """The GPUs of the widest jobs."""
        return WIDEST_GANG if self.gangs else 1

    @property
    def load(self) -> float:
        """Offered GPU time at the proportional share over the cluster's, in expectation."""
        return self.rate * gpu_s_mean(self.widest) / 3600 / PAPER_GPUS

    @property
    def window(self) -> tuple[int, int]:
        """The first measured job, and the first that is measured no more."""
        return middle_of(self.jobs)

    @property
    def hungry(self) -> float:
        """The percentage of jobs of image and speech models."""
        return self.split[0] + self.split[2]

    def config(self, order: str, mechanism: str) -> LoadedConfig:
        """Return the config of a run in the corrected setting."""
        workload: dict[str, object] = {
            "generate": {
                "kind": "synergy-like",
                "jobs": self.jobs,
                "jobs_per_hour": self.jobs_per_hour,
                "gpus_max": self.widest,
                "split": list(self.split),
            }
        }
        return _corrected(self.seed, self.form.servers, workload, order, mechanism)


def _corrected(
    seed: int, servers: int, workload: dict[str, object], order: str, mechanism: str
) -> LoadedConfig:
    tree = _tree(seed, servers, {**workload, "sensitivity": "builtin:synergy"})
    policy = {"name": order, "round": "5m", "sizing": mechanism}
    return make_config({**tree, "policy": policy}, "reproduce synergy")


def _tree(seed: int, servers: int, workload: dict[str, object]) -> dict[str, object]:
    node = {"name": "gpu", "count": servers, "gpus": 8, "cpus": 24, "memory_gb": 500}
    return {
        "schema": 1,
        "seed": seed,
        "cluster": {"nodes": [node]},
        "workload": workload,
        "log": {"url": "none:"},
    }
