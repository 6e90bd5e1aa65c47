"""What Gandiva's authors published of their AutoML experiment, and what follows from it alone.

Slides of OSDI 2018: 100 configurations of a residual network on CIFAR-10, HyperOpt, 16 GPUs; the
minutes to the first one whose accuracy is above 70, 80 and 90 %.
"""

from typing import Final

CONFIGS: Final = 100
SERVERS: Final = 4
GPUS_PER_SERVER: Final = 4
GPUS: Final = SERVERS * GPUS_PER_SERVER

THRESHOLDS: Final = (0.7, 0.8, 0.9)

PUBLISHED_BASELINE_MIN: Final = (134.1, 2849.1, 5296.7)
"""The baseline, with the 2489.1 of the slide read as 2849.1: two digits are swapped, since the
published speed-up of 5.25 is 2849.1 / 543.1."""

SLIDE_BASELINE_80_MIN: Final = 2489.1
"""What stands on the slide, which would be a speed-up of 4.58."""

PUBLISHED_GANDIVA_MIN: Final = (134.1, 543.1, 935.4)
"""Nothing is fitted to these."""

PUBLISHED_SPEED_UPS: Final = (1.0, 5.25, 5.66)
ACCEPTED: Final = ((0.9, 1.1), (4.2, 6.3), (4.5, 6.8))
"""The speed-ups that count as published: a fifth around the last two."""

BATCH_S: Final = 0.6
EPOCH_BATCHES: Final = 391
"""Mini-batches of 128 in the 50,000 images of CIFAR-10."""

EPOCH_S: Final = BATCH_S * EPOCH_BATCHES

WAVES: Final = (1, 4, 7)
"""In which wave each threshold was first passed, by the published baseline."""
