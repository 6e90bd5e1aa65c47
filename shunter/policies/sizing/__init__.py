"""Who solves the programs by which jobs are sized."""

from shunter.policies.sizing.highs import HighsSolver, why_unusable

__all__ = ["HighsSolver", "why_unusable"]
