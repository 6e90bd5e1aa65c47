"""Nodes in memory, on the clock of the run: a transport for whole clusters in virtual time."""

from tests.doubles.simulated_nodes.attempt import Run
from tests.doubles.simulated_nodes.node import SimulatedNode, SimulatedServer
from tests.doubles.simulated_nodes.program import SimulatedProgram
from tests.doubles.simulated_nodes.transport import Disturbance, SimulatedTransport

__all__ = [
    "Disturbance",
    "Run",
    "SimulatedNode",
    "SimulatedProgram",
    "SimulatedServer",
    "SimulatedTransport",
]
