"""Gavel as the paper means it: an objective, target fractions, and rounds that follow them."""

from shunter.policies.gavel.scheduling.policy import Gavel, GavelParams, GavelPolicy

__all__ = ["Gavel", "GavelParams", "GavelPolicy"]
