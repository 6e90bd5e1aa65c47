"""Max-min fairness: the least normalised throughput is the largest, alone or lexicographically.

Narayanan et al., OSDI 2020, sections 4.1 and 4.3. Agnostic, every GPU counts as much for every job;
packed, two jobs may share GPUs (section 3.1).
"""

from dataclasses import dataclass

from shunter.policies.gavel.mechanism.targets import Fractions, Wanted

__all__ = ["MaxMinFairness", "WaterFilling"]


@dataclass(frozen=True, slots=True)
class MaxMinFairness:
    """Least attained service as a program: weights, gangs and speeds considered."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, wanted: Wanted) -> Fractions:
        """Return the centre of the optimal face."""
        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.fairness import max_min_fairness

        found = arrays_of(wanted, agnostic=self.agnostic)
        return divided(wanted, found, [found.weights], max_min_fairness, packed=self.packed)


@dataclass(frozen=True, slots=True)
class WaterFilling:
    """The least is the largest, then the least of all others, and so on."""

    agnostic: bool = False
    packed: bool = False

    def fractions(self, wanted: Wanted) -> Fractions:
        """Return the centre of all lexicographic optima."""
        from shunter.policies.gavel.objectives.arrays import arrays_of, divided
        from shunter.policies.gavel.solving.filling import water_filling

        found = arrays_of(wanted, agnostic=self.agnostic)
        return divided(wanted, found, [found.weights], water_filling, packed=self.packed)
