"""Gavel as the paper means it: an objective, target fractions, and rounds that follow them."""

from shunter.policies.gavel.corrected.plugin import Gavel, GavelParams
from shunter.policies.gavel.corrected.policy import GavelPolicy

__all__ = ["Gavel", "GavelParams", "GavelPolicy"]
