"""Nodes in memory, on the clock of the run: a transport for whole clusters in virtual time."""

from shunter.backends.simulated_nodes.attempt import Run
from shunter.backends.simulated_nodes.node import SimulatedNode, SimulatedServer
from shunter.backends.simulated_nodes.program import SimulatedProgram
from shunter.backends.simulated_nodes.transport import Disturbance, SimulatedTransport

__all__ = [
    "Disturbance",
    "Run",
    "SimulatedNode",
    "SimulatedProgram",
    "SimulatedServer",
    "SimulatedTransport",
]
