"""What Gandiva's authors published and is compared here (OSDI 2018, paper and slides)."""

from typing import Final

FIRST_BATCHES: Final = 100
"""After so many mini-batches a user has the first feedback."""

BATCH_S: Final = 0.6
"""Seconds of a mini-batch: about 100 in a turn of 60 s (slides)."""

CLAIMED_EARLIER: Final = 4.5
"""So many times sooner come the first 100 mini-batches, on average, on 180 GPUs (slides)."""

MEMORY_SWING: Final = 77
"""So many times the memory of a mini-batch at its boundary is held within one, at most (slides)."""

CLAIMED_CHEAPER: Final = 50
"""About so many times cheaper is a suspension at a boundary (slides)."""

SIX_ON_FOUR: Final = 4 / 6
"""The part of a GPU that each of six jobs has on four (slides; the figure of equal shares)."""
