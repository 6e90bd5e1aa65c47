"""Where recorded and replayed decisions part, and all that a reader needs to find out why."""

from shunter.app.replaying.divergence.answers import Answers
from shunter.app.replaying.divergence.divergence import (
    Difference,
    Divergence,
    first_difference,
    shown,
)
from shunter.app.replaying.divergence.seen import Rank, Seen, seen_at

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
