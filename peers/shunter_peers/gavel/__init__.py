"""The public Gavel simulator as it is: its rounds in float seconds, faults included."""

from shunter_peers.gavel.played_jobs import Jobs, PeerJob
from shunter_peers.gavel.plugin import GavelPeer
from shunter_peers.gavel.policy import PeerRoundsPolicy
from shunter_peers.gavel.rounds import PeerRounds

__all__ = ["GavelPeer", "Jobs", "PeerJob", "PeerRounds", "PeerRoundsPolicy"]
