"""Other people's simulators, played as policies: what they decide, faults included."""

from shunter.policies.peers.blox import BloxPeer
from shunter.policies.peers.tiresias import TiresiasPeer

__all__ = ["BloxPeer", "TiresiasPeer"]
