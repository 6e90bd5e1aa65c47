"""The public Synergy simulator as it is: rounds of 300 s, its allocation order, its faults."""

from shunter_peers.synergy.plugin import SynergyPeer
from shunter_peers.synergy.policy import SynergyPolicy
from shunter_peers.synergy.world import SynergyRounds

__all__ = ["SynergyPeer", "SynergyPolicy", "SynergyRounds"]
