"""Where recorded and replayed decisions part, and all that a reader needs to find out why."""

from shunter.ask.replaying.divergence.answers import Answers
from shunter.ask.replaying.divergence.divergence import (
    Difference,
    Divergence,
    first_difference,
    shown,
)
from shunter.ask.replaying.divergence.seen import Rank, Seen, seen_at

__all__ = [
    "Answers",
    "Difference",
    "Divergence",
    "Rank",
    "Seen",
    "first_difference",
    "seen_at",
    "shown",
]
