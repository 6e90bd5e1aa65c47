"""The placements by the names that configurations give them."""

from shunter.core.placement.consolidated import Consolidated
from shunter.core.placement.first_fit import FirstFit
from shunter.core.placement.skew import Skew
from shunter.core.placement.spread import Spread
from shunter.core.placement.strategy import Placement
from shunter.core.placement.topology import Topology

PLACEMENTS: dict[str, type[Placement]] = {
    "consolidated": Consolidated,
    "spread": Spread,
    "first_fit": FirstFit,
    "skew": Skew,
    "topology": Topology,
}
