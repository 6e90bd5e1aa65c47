"""Jobs that keep arriving: the scenes of Gavel's comparison.

The paper's cluster has 36 V100, 36 P100 and 36 K80. Averages are over the jobs 4,000 to 5,000 of
8,000: those before find an empty cluster, those after see to it that arrivals go on until the last
measured job ends. The quick form is a third of everything but time: 12 GPUs of each type, a third
of the jobs an hour, a third of the jobs. So its measured jobs arrive in the same hours, and meet as
much work for each GPU; only chance weighs more.
"""

from dataclasses import dataclass
from typing import Final, Literal

from shunter.config import LoadedConfig, make_config
from shunter_papers.windows import middle_of

TYPES: Final = ("v100", "p100", "k80")
WIDEST_GANG: Final = 8

Setting = Literal["public code", "corrected"]
"""Whether rounds and shares are the public simulator's or our own."""


@dataclass(frozen=True)
class Form:
    """A size of the comparison.

    `servers` of four GPUs are of each type; `part` is what it is of the paper's size; so many jobs
    arrive at each rate.
    """

    name: Literal["full", "quick"]
    servers: int
    part: float
    jobs: int

    @property
    def gpus(self) -> int:
        """All GPUs of the cluster."""
        return self.servers * 4 * len(TYPES)

    @property
    def cluster(self) -> str:
        """The cluster in words."""
        return ", ".join(f"{self.servers * 4} {name.upper()}" for name in TYPES)

    def nodes(self) -> list[dict[str, object]]:
        """Return the tables [[cluster.nodes]]."""
        return [{"name": name, "count": self.servers, "gpus": 4, "type": name} for name in TYPES]


FULL: Final = Form("full", 9, 1.0, 8000)
QUICK: Final = Form("quick", 3, 1 / 3, 2667)


@dataclass(frozen=True)
class Scene:
    """Arrivals on a cluster: `rate` is the paper's, in jobs an hour on its 108 GPUs."""

    form: Form
    rate: float
    gangs: bool
    jobs: int
    seed: int

    @property
    def jobs_per_hour(self) -> float:
        """The rate on the cluster of this form."""
        return self.rate * self.form.part

    @property
    def window(self) -> tuple[int, int]:
        """The first measured job, and the first that is measured no more."""
        return middle_of(self.jobs)

    def config(self, setting: Setting, params: dict[str, object]) -> LoadedConfig:
        """Return the config of a run.

        Args:
            setting: who plays.
            params: of `gavel_peer` for the public code, of `gavel` for our own.
        """
        generate: dict[str, object] = {
            "kind": "gavel-like",
            "jobs": self.jobs,
            "jobs_per_hour": self.jobs_per_hour,
        }
        tree: dict[str, object] = {
            "schema": 1,
            "seed": self.seed,
            "cluster": {"nodes": self.form.nodes()},
            "workload": {
                "throughputs": "builtin:gavel",
                "base_type": TYPES[0],
                "generate": generate if self.gangs else {**generate, "gpus_max": 1},
            },
            "log": {"url": "none:"},
        }
        if setting == "corrected":
            tree["policy"] = {"name": "gavel", "round": "6m", "params": {"gavel": params}}
        else:
            params = {"seed": self.seed, **params}
            tree["policy"] = {"name": "gavel_peer", "round": "6m", "params": {"gavel_peer": params}}
            tree["simulation"] = {"lease": {"progress": "whole_steps", "round_ends": "last_gang"}}
        return make_config(tree, "reproduce gavel")
