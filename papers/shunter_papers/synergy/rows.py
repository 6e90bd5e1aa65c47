"""The rows of Synergy's comparison: what each mechanism was found to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shunter_papers.synergy.figures import Measure, Published
from shunter_papers.synergy.scenes import BASELINE, Arrivals, Setting, Slide
from shunter_papers.windows import Measured


@dataclass(frozen=True)
class SlideRow:
    """A mechanism on the jobs of the slides, by one measure.

    `hours` are ours by setting, `times` how often they are those of proportional shares there.
    """

    slide: Slide
    measure: Measure
    mechanism: str
    published: Published
    hours: Mapping[Setting, float | None]
    times: Mapping[Setting, float | None]

    @property
    def is_public(self) -> bool:
        """Whether the jobs were read from a trace, which is taken for the public one."""
        return self.slide.trace is not None

    def document(self) -> dict[str, Any]:
        """Return the row as a part of the document."""
        return {
            "trace": self.slide.name,
            "stands_in": not self.is_public,
            "order": self.slide.order,
            "measure": self.measure,
            "mechanism": self.mechanism,
            "deployed_hours": self.published.deployed,
            "simulated_hours": self.published.simulated,
            "public_code_hours": self.published.public_code,
            "hours": dict(self.hours),
            "ratios": dict(self.times),
        }


@dataclass(frozen=True)
class ArrivalRow:
    """A mechanism under an order where jobs keep arriving.

    `times` is how often its average is that of proportional shares; `run` a part of its run's
    document.
    """

    scene: Arrivals
    order: str
    mechanism: str
    measured: Measured
    times: float | None
    run: Mapping[str, Any]

    @property
    def is_baseline(self) -> bool:
        """Whether it is compared with itself."""
        return self.mechanism == BASELINE

    @property
    def is_never_full(self) -> bool:
        """Whether its jobs never wanted all GPUs at once."""
        return self.measured.wanted_most < self.scene.form.gpus

    @property
    def is_always_full(self) -> bool:
        """Whether its jobs wanted all GPUs or more all the time."""
        return self.measured.full_part == 1.0

    def document(self) -> dict[str, Any]:
        """Return the row as a part of the document."""
        scene, measured = self.scene, self.measured
        return {
            "order": self.order,
            "mechanism": self.mechanism,
            "gangs": scene.gangs,
            "split": list(scene.split),
            "paper_jobs_per_hour": scene.rate,
            "jobs_per_hour": scene.jobs_per_hour,
            "load": scene.load,
            "arriving": scene.jobs,
            "measured": list(scene.window),
            "unfinished": measured.left,
            "hours": measured.hours,
            "ratio": self.times,
            "gpus_wanted_most": measured.wanted_most,
            "full_part": measured.full_part,
            "arrivals_end_early": measured.arrivals_end_early,
            **self.run,
        }
