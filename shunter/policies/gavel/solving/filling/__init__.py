"""Lexicographic max-min: levels rise until bottlenecks hold them."""

from shunter.policies.gavel.solving.filling.levels import hierarchical, water_filling

__all__ = ["hierarchical", "water_filling"]
