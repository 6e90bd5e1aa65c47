"""Max-min fairness: the least normalised throughput is the largest, alone or lexicographically.

Narayanan et al., OSDI 2020, sections 4.1 and 4.3. Agnostic, every GPU counts as much for every job;
packed, two jobs may share GPUs (section 3.1). Across entities (section 4.3) it is water filling, in
which an entity's water is shared among its jobs by their weights, or goes to the first of them that
is not full.
"""

from dataclasses import dataclass, field
from typing import Literal

from shunter.events.values.ids import GpuType
from shunter.policies.gavel.mechanism.targets import Demands, Fractions, Gang


@dataclass(frozen=True, slots=True)
class MaxMinFairness:
    """Least attained service as a program: weights, gangs and speeds considered."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of the optimal face."""
        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.fairness import max_min_fairness

        found = arrays_of(demands, agnostic=self.agnostic)
        return divided(demands, found, [found.weights], max_min_fairness, packed=self.packed)


@dataclass(frozen=True, slots=True)
class WaterFilling:
    """The least is the largest, then the least of all others, and so on."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of all lexicographic optima."""
        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.filling import water_filling

        found = arrays_of(demands, agnostic=self.agnostic)
        return divided(demands, found, [found.weights], water_filling, packed=self.packed)


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """Entities by `weights`, 1 for others; `inside` is how each divides its part."""

    weights: dict[str, float] = field(default_factory=dict)
    inside: Literal["fairness", "fifo"] = "fairness"
    agnostic: bool = False
    packed: bool = False

    def fractions(self, demands: Demands) -> Fractions:
        """Return the centre of all lexicographic optima."""
        import numpy as np

        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.filling import hierarchical
        from shunter.policies.gavel.solving.groups import Groups, Shares
        from shunter.policies.gavel.solving.interior import Floats

        names = list(dict.fromkeys(request.entity for request in demands.requests))
        places = {name: float(place) for place, name in enumerate(names)}
        weights = np.array([self.weights.get(name, 1.0) for name in names])
        entity = np.array([places[request.entity] for request in demands.requests])
        found = arrays_of(demands, agnostic=self.agnostic)

        def fair(groups: Groups, entity: Floats, inside: Floats) -> Shares:
            return hierarchical(groups, entity.astype(np.intp), weights, inside)

        def first(groups: Groups, entity: Floats, _order: Floats) -> Shares:
            return hierarchical(groups, entity.astype(np.intp), weights, None)

        if self.inside == "fairness":
            return divided(demands, found, [entity, found.weights], fair, packed=self.packed)
        # One job a group, in the order of arrival: of equal jobs the earlier one goes first.
        order = np.arange(float(len(entity)))
        return divided(demands, found, [entity, order], first, packed=self.packed)


@dataclass(slots=True)
class Isolated:
    """An equal part of each type's GPUs for each job, in time of its whole gang.

    The isolated share is the yardstick of sharing incentive (OSDI 2020, section 4).
    """

    def fractions(self, demands: Demands) -> Fractions:
        """Return N_j / (m s_i), over the sum of the row where that is more than 1."""
        jobs = len(demands.requests)
        found: dict[Gang, dict[GpuType, float]] = {}
        for request in demands.requests:
            row = {name: many / jobs / request.kind.gpus for name, many in demands.gpus.items()}
            whole = max(sum(row.values()), 1.0)
            found[(request.job_id,)] = {name: part / whole for name, part in row.items()}
        return found


@dataclass(slots=True)
class Proportional:
    """All of the time, over the types as their GPUs are."""

    def fractions(self, demands: Demands) -> Fractions:
        """Return N_j / N."""
        whole = sum(demands.gpus.values())
        row = {name: many / whole for name, many in demands.gpus.items()}
        return {(request.job_id,): dict(row) for request in demands.requests}
