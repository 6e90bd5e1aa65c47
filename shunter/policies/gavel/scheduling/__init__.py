"""Gavel as the paper means it: an objective, target fractions, and rounds that follow them."""

from shunter.policies.gavel.scheduling.plugin import Gavel, GavelParams
from shunter.policies.gavel.scheduling.policy import GavelPolicy

__all__ = ["Gavel", "GavelParams", "GavelPolicy"]
