"""Other people's simulators, played as policies: what they decide, faults included."""

from shunter_peers.queueing.blox import BloxPeer
from shunter_peers.queueing.tiresias import TiresiasPeer

__all__ = ["BloxPeer", "TiresiasPeer"]
