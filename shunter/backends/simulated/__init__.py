"""A cluster on a virtual clock."""

from shunter.backends.simulated.backend import SimulatedBackend
from shunter.backends.simulated.work import Costs

__all__ = ["Costs", "SimulatedBackend"]
