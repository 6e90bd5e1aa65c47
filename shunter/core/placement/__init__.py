"""Where a gang runs: searches over bitmaps of free GPUs."""

from shunter.core.placement.catalogue import PLACEMENTS
from shunter.core.placement.consolidated import Consolidated
from shunter.core.placement.first_fit import FirstFit
from shunter.core.placement.fitting import find, place
from shunter.core.placement.skew import SKEW_THRESHOLD, Skew
from shunter.core.placement.spread import Spread
from shunter.core.placement.strategy import Classing, Messages, Placement

__all__ = [
    "PLACEMENTS",
    "SKEW_THRESHOLD",
    "Classing",
    "Consolidated",
    "FirstFit",
    "Messages",
    "Placement",
    "Skew",
    "Spread",
    "find",
    "place",
]
