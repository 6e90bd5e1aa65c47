"""Gandiva: introspective scheduling (Xiao et al., OSDI 2018)."""

from shunter.policies.gandiva.policy import Gandiva

__all__ = ["Gandiva"]
