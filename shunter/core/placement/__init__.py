"""Where a gang runs: searches over bitmaps of free GPUs."""

from shunter.core.placement.consolidated import Consolidated, FirstFit
from shunter.core.placement.fitting import find, place
from shunter.core.placement.spread import PLACEMENTS, SKEW_THRESHOLD, Skew, Spread
from shunter.core.placement.strategy import Classing, Messages, Placement
from shunter.core.placement.topology import (
    PACK_ABOVE,
    SPREAD_BELOW,
    Mode,
    Packing,
    Topology,
    at_load,
    note_load,
)

__all__ = [
    "PACK_ABOVE",
    "PLACEMENTS",
    "SKEW_THRESHOLD",
    "SPREAD_BELOW",
    "Classing",
    "Consolidated",
    "FirstFit",
    "Messages",
    "Mode",
    "Packing",
    "Placement",
    "Skew",
    "Spread",
    "Topology",
    "at_load",
    "find",
    "note_load",
    "place",
]
