"""Classes of waiting jobs where a placement tells gangs apart that ask for the same.

A gang that must be on the fewest servers may have to wait where another one with the same demand
starts. So it stands in a class of its own, whose demand is `tight`. What is measured of a model
while its jobs run may put it into the other class.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from shunter.core.placement import Classing, Messages, Placement
from shunter.core.ranking.index import Ranks
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.values.job_spec import Demand

Sync = Callable[[Job, Ranks, View], None]


def classes_of(placement: Placement) -> "Classes | None":
    """Return how a placement classes jobs; None: by their demand alone."""
    return None if placement.classing is None else Classes(placement.classing)


@dataclass(slots=True)
class Classes:
    """Under which demand each job waits.

    `tight` are the demands of tight classes, `judged` is how each measured model was last.
    """

    classing: Classing
    tight: dict[Demand, Demand] = field(default_factory=dict)
    judged: dict[str, bool] = field(default_factory=dict)

    def demand_of(self, job: Job, messages: Messages) -> Demand:
        """Return the demand of a job's class, one object for equal ones."""
        demand = job.demand
        if not self.classing.is_tight(job.spec, messages):
            return demand
        tight = self.tight.get(demand)
        if tight is None:
            tight = self.tight[demand] = replace(demand, tight=True)
        return tight

    def observer(self, sync: Sync, ranks: Ranks, flipped: Callable[[], None]) -> Any:
        """Return what moves jobs when a sample shows their model in another light.

        Args:
            sync: puts a job where it belongs.
            ranks: what says where jobs stand.
            flipped: told after jobs were moved.
        """

        def sampled(event: ProfileSampled, view: View) -> None:
            model = view.jobs[event.job_id].spec.model
            if model not in view.messages:
                return
            skewed = self.classing.is_skewed(model, view.messages)
            if self.judged.get(model) is skewed:
                return
            self.judged[model] = skewed
            for job in view.jobs.values():
                if job.spec.model == model:
                    sync(job, ranks, view)
            flipped()

        return sampled
