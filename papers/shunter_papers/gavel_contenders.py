"""Who is compared in Gavel's comparison, and what each was found to do."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from shunter_papers.gavel_arrivals import Scene, Setting
from shunter_papers.windows import Measured

Solver = Literal["ecos", "centred"]
"""Who computes shares in the rounds of the public simulator."""


@dataclass(frozen=True)
class Contender:
    """A policy under its label, and the label of what it is compared with."""

    label: str
    against: str
    params: dict[str, object] = field(default_factory=dict)
    setting: Setting = "corrected"

    @property
    def is_baseline(self) -> bool:
        """Whether it is compared with itself."""
        return self.label == self.against

    @property
    def has_loose_baseline(self) -> bool:
        """Whether its baseline deals GPU types out anew where the paper's keeps them."""
        return self.against == "FIFO"


PUBLIC: Final = (
    Contender("LAS", "LAS", {"policy": "max_min_fairness"}, "public code"),
    Contender("LAS, aware", "LAS", {"policy": "max_min_fairness_perf"}, "public code"),
)
CORRECTED: Final = (
    Contender("LAS", "LAS", {"objective": "max_min_fairness", "aware": False}),
    Contender("LAS, aware", "LAS", {"objective": "max_min_fairness"}),
    Contender("FIFO", "FIFO", {"objective": "fifo", "aware": False}),
    Contender("FIFO, aware", "FIFO", {"objective": "fifo"}),
    Contender("AlloX", "FIFO", {"objective": "allox"}),
)
COSTLY: Final = (
    Contender(
        "LAS, aware, shared", "LAS", {"objective": "max_min_fairness", "space_sharing": True}
    ),
    Contender("FTF", "FTF", {"objective": "finish_time_fairness", "aware": False}),
    Contender("FTF, aware", "FTF", {"objective": "finish_time_fairness"}),
)
"""Corrected ones that take minutes on a full cluster."""
STATIC: Final = (
    Contender("FIFO", "FIFO", {"objective": "fifo", "aware": False}),
    Contender("makespan", "makespan", {"objective": "makespan", "aware": False}),
    Contender("makespan, aware", "makespan", {"objective": "makespan"}),
    Contender(
        "makespan, aware, shared", "makespan", {"objective": "makespan", "space_sharing": True}
    ),
)


@dataclass(frozen=True)
class Average:
    """What one contender did in a scene of arrivals.

    `times` is how often its average is that of the agnostic form; `published` the average in hours
    of the public notebooks at that rate, if there is one.
    """

    contender: Contender
    scene: Scene
    measured: Measured
    times: float | None
    published: float | None
    document: dict[str, Any]

    @property
    def is_never_full(self) -> bool:
        """Whether its jobs never wanted all GPUs at once."""
        return self.measured.wanted_most < self.scene.form.gpus


@dataclass(frozen=True)
class Makespan:
    """What one contender did with so many jobs at once; fields as of an average."""

    contender: Contender
    jobs: int
    hours: float
    times: float | None
    published: float | None
    document: dict[str, Any]
