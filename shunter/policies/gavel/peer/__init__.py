"""The public Gavel simulator as it is: its rounds in float seconds, faults included."""

from shunter.policies.gavel.peer.jobs import Jobs, PeerJob
from shunter.policies.gavel.peer.rounds import PeerRounds

__all__ = ["Jobs", "PeerJob", "PeerRounds"]
