"""The jobs, the cluster and the placements of the comparison.

The text's jobs are not public. Ours arrive one by one, as often as a load says; how long each runs
alone is drawn evenly in its logarithm, from ten minutes to four hours. Three experiments:
`interference`, jobs of one GPU that slow each other down; `locality`, gangs of four that suffer
from distance, among as many jobs of three that do not and leave fragments, also by one rule for
all of them, that of Tiresias (NSDI 2019): who has a skewed model stays together; `tension`, four
jobs of one GPU to one gang, where apart is good for the former and costs the latter the switches
and servers that they need; gangs run anywhere, or wait for a server, or others are moved for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from types import MappingProxyType
from typing import Any, Final

from shunter.config import LoadedConfig, make_config
from shunter.core import RandomStream
from shunter.events import JobId, JobSpec, Level
from shunter.workloads import QualityReport, Trace, TraceJob

SERVERS: Final = 8
GPUS: Final = SERVERS * 8
_SHORTEST_S, _LONGEST_S = 600.0, 4 * 3600.0
_MEAN_S: Final = (_LONGEST_S - _SHORTEST_S) / log(_LONGEST_S / _SHORTEST_S)

EXPERIMENTS: Final = ("interference", "locality", "tension")
LOADS: Final[Mapping[str, Sequence[float]]] = MappingProxyType(
    {
        "interference": (0.1, 0.3, 0.5, 0.7, 0.9),
        "locality": (0.5, 0.7, 0.9),
        "tension": (0.3, 0.5, 0.7, 0.9, 1.1),
    }
)
"""Offered GPU time over the cluster's; what distance and neighbours take comes on top."""

SINGLES: Final[Mapping[str, str]] = MappingProxyType({"interference": "rnn-cntk", "tension": "rnn"})
"""The models of jobs of one GPU: the text has both, of CNTK and of TensorFlow."""

GANGS: Final = ("resnet50", "vgg16", "inception3")
SIZES: Final = (2, 4, 8)
FLOOR: Final = 0.7
MOVE_S: Final = 10
"""What a move takes of a job's time, and is stated to (Gandiva: 8 to 10 s with PyTorch)."""

CURVES: Final[Mapping[str, Sequence[tuple[tuple[int, ...], float]]]] = MappingProxyType(
    {
        "resnet50": (((4,), 1.0), ((2, 2), 0.72), ((1, 1, 1, 1), 0.41)),
        "vgg16": (((4,), 1.0), ((2, 2), 0.53)),
        "inception3": (((4,), 1.0), ((2, 2), 1.0), ((1, 1, 1, 1), 1.0)),
    }
)
"""What owners of such gangs could say; that of 1+1+1+1 of Inception is a bound, not published."""


@dataclass(frozen=True)
class Contender:
    """A way to place jobs: name, section of the config, and what contracts jobs have.

    `against` names the one from which it differs in one thing, and with which it is compared seed
    by seed.
    """

    name: str
    policy: Mapping[str, Any]
    contract: str = ""
    against: str = ""


def _topology(mode: str, **more: Any) -> Mapping[str, Any]:
    return {"placement": "topology", "topology": {"mode": mode, **more}}


_MODES: Final = tuple(Contender(mode, _topology(mode)) for mode in ("spread", "pack", "adaptive"))
CONTENDERS: Final[Mapping[str, Sequence[Contender]]] = MappingProxyType(
    {
        "interference": _MODES,
        "locality": (
            Contender("anywhere", {"placement": "first_fit"}),
            Contender("nearest", _topology("pack")),
            Contender("one server", _topology("pack"), "server"),
            Contender("by skew", {"placement": "skew"}),
            Contender("by contract", _topology("pack"), "curve"),
        ),
        "tension": (
            *_MODES,
            Contender("one server", _topology("adaptive"), "server"),
            Contender(
                "with moves",
                _topology("adaptive", make_room={"cost": f"{MOVE_S}s"}),
                "server",
                against="one server",
            ),
        ),
    }
)


@dataclass(frozen=True)
class Scene:
    """Jobs that keep arriving at a load, drawn by a seed, and what NVLink joins."""

    experiment: str
    load: float
    jobs: int
    seed: int
    nvlink: Sequence[Sequence[int]] = ()

    def config(self, contender: Contender) -> LoadedConfig:
        """Return the config of a run."""
        nodes = [
            {
                "name": f"r{rack}n",
                "count": SERVERS // 2,
                "gpus": 8,
                "sockets": 2,
                "switches": 4,
                "nvlink": self.nvlink,
                "rack": f"r{rack}",
                "type": "p100",
            }
            for rack in (1, 2)
        ]
        return make_config(
            {
                "schema": 1,
                "seed": self.seed,
                "cluster": {"nodes": nodes},
                "workload": {
                    "generate": {"kind": "philly-like", "jobs": 1},
                    "factors": "builtin:published",
                },
                "policy": {"name": "fifo_backfill", "trigger": "event", **contender.policy},
                "simulation": {"costs": {"migrate": f"{MOVE_S}s"}},
                "log": {"url": "none:"},
            },
            "reproduce topology",
        )

    def trace(self, contract: str) -> Trace:
        """Return the jobs; the same ones under every contract."""
        rng = RandomStream(
            self.seed, f"reproduce topology {self.experiment}", round(self.load * 1000)
        )
        mean_gpus = {"interference": 1.0, "locality": 3.5}.get(self.experiment, _TENSION_GPUS)
        every_s = mean_gpus * _MEAN_S / (self.load * GPUS)
        at_s = 0.0
        jobs = []
        for number in range(self.jobs):
            at_s -= every_s * log(1.0 - rng.random())
            length = _SHORTEST_S * exp(rng.random() * log(_LONGEST_S / _SHORTEST_S))
            spec = self._spec(rng, contract)
            jobs.append(TraceJob(JobId(f"j{number}"), round(at_s * 1e6), spec, round(length * 1e6)))
        name = f"{self.experiment} at load {self.load:g}, seed {self.seed}"
        return Trace(name, "generated", jobs, "", QualityReport(len(jobs), len(jobs), len(jobs)))

    def _spec(self, rng: RandomStream, contract: str) -> JobSpec:
        """Draw what a job asks for."""
        is_single = self.experiment == "interference" or (
            self.experiment == "tension" and rng.below(5) > 0
        )
        if is_single:
            return JobSpec(1, model=SINGLES[self.experiment])
        model = GANGS[rng.below(len(GANGS))]
        if self.experiment == "locality" and rng.below(2):
            return JobSpec(3, model="inception3")
        if self.experiment == "tension":
            gang = JobSpec(SIZES[rng.below(len(SIZES))], model="resnet50")
            return replace(gang, max_level=Level.server) if contract == "server" else gang
        if contract == "server":
            return JobSpec(4, model=model, max_level=Level.server)
        if contract == "curve":
            curve = tuple(CURVES[model])
            return JobSpec(4, model=model, shape_tolerance=curve, min_speed=FLOOR)
        return JobSpec(4, model=model)


_TENSION_GPUS: Final = 0.8 + 0.2 * sum(SIZES) / len(SIZES)
