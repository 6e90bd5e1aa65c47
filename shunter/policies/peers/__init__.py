"""Other people's simulators, played as policies: what they decide, faults included."""

from shunter.policies.peers.tiresias import TiresiasPeer

__all__ = ["TiresiasPeer"]
