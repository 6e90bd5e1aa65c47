"""The public Gavel simulator as it is: its rounds in float seconds, faults included."""

from shunter.policies.gavel.peer.jobs import Jobs, PeerJob
from shunter.policies.gavel.peer.plugin import GavelPeer
from shunter.policies.gavel.peer.policy import PeerRoundsPolicy
from shunter.policies.gavel.peer.rounds import PeerRounds

__all__ = ["GavelPeer", "Jobs", "PeerJob", "PeerRounds", "PeerRoundsPolicy"]
