"""Jobs that keep arriving: the scenes of Gavel's comparison, and what is measured in their middle.

The paper's cluster has 36 V100, 36 P100 and 36 K80. Averages are over the jobs 4,000 to 5,000 of
8,000: those before find an empty cluster, those after see to it that arrivals go on until the last
measured job ends. The quick form is a third of everything but time: 12 GPUs of each type, a third
of the jobs an hour, a third of the jobs. So its measured jobs arrive in the same hours, and meet as
much work for each GPU; only chance weighs more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from shunter.app.config.loading import LoadedConfig, make_config
from shunter.app.runs.simulation import simulate
from shunter.app.runs.summary import RunDocument
from shunter.core.metrics import JobResult

TYPES: Final = ("v100", "p100", "k80")
HOUR_US: Final = 3_600_000_000
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
        first = self.jobs // 2
        return first, max(first + 1, 5 * self.jobs // 8)

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


@dataclass(frozen=True)
class Measured:
    """What the jobs of a window met.

    `hours` is their average completion time, `left` how many have none. Between the arrival of the
    first and the end of the last, the jobs that are there want at most `wanted_most` GPUs, and all
    there are or more in `full_part` of the time. `arrivals_end_early` is whether the last job
    arrived before the last measured one ended.
    """

    hours: float
    left: int
    wanted_most: int
    full_part: float
    arrivals_end_early: bool


def play(config: LoadedConfig, window: tuple[int, int]) -> tuple[Measured, RunDocument]:
    """Run a config; return what a window of jobs met, and the document."""
    result = simulate(config)
    return measured(list(result.stories()), window, config.config.cluster.gpus), result.document


def measured(results: Sequence[JobResult], window: tuple[int, int], gpus: int) -> Measured:
    """Return what the jobs of a window met.

    Args:
        results: the stories of all jobs.
        window: the ordinals of the first job and the one after the last.
        gpus: how many the cluster has.
    """
    inside = [each for each in results if window[0] <= each.ordinal < window[1]]
    spans = [each.jct_us for each in inside if each.jct_us is not None]
    begin_us = min(each.submit_us for each in inside)
    end_us = max((each.end_us for each in inside if each.end_us is not None), default=begin_us)
    most, full_us = _demand(results, gpus, begin_us, end_us)
    return Measured(
        hours=fmean(spans) / HOUR_US if spans else 0.0,
        left=len(inside) - len(spans),
        wanted_most=most,
        full_part=full_us / (end_us - begin_us) if end_us > begin_us else 0.0,
        arrivals_end_early=max(each.submit_us for each in results) < end_us,
    )


def _demand(results: Iterable[JobResult], gpus: int, begin_us: int, end_us: int) -> tuple[int, int]:
    """Return the most GPUs that are wanted at once, and for how long all or more are."""
    changes: dict[int, int] = {}
    for each in results:
        until_us = end_us if each.end_us is None else min(each.end_us, end_us)
        since_us = max(each.submit_us, begin_us)
        if since_us < until_us:
            changes[since_us] = changes.get(since_us, 0) + each.gpus
            changes[until_us] = changes.get(until_us, 0) - each.gpus
    wanted, most, full_us, before_us = 0, 0, 0, begin_us
    for at_us, change in sorted(changes.items()):
        if wanted >= gpus:
            full_us += at_us - before_us
        wanted += change
        most, before_us = max(most, wanted), at_us
    return most, full_us
