"""What jobs must have beside their GPUs, where that is not what they ask for themselves."""

from typing import Protocol

from shunter.core.planning.draft import Draft
from shunter.core.state import Job
from shunter.events.values.job_spec import Demand


class Needs(Protocol):
    """What a policy that sizes jobs says to those who look for places."""

    @property
    def are_looked_at(self) -> bool:
        """Whether CPUs and memory count; if not, who has the GPUs finds them there."""

    def settle(self, draft: Draft) -> None:
        """Let all who run count in a draft with what they must have."""

    def demand(self, demand: Demand, job: Job, pool: str) -> Demand:
        """Return a job's demand, with what it must find in a pool."""
