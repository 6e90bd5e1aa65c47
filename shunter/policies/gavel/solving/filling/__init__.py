"""Lexicographic max-min: water rises in basins until bottlenecks hold it."""

from shunter.policies.gavel.solving.filling.levels import hierarchical, water_filling

__all__ = ["hierarchical", "water_filling"]
