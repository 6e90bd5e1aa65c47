"""Deciding a recorded run once more, and comparing all that follows from its inputs."""

from shunter.ask.replaying.verification.verifier import Verifier, same_targets
from shunter.ask.replaying.verification.whole_log import Verdict, verify_log

__all__ = ["Verdict", "Verifier", "same_targets", "verify_log"]
