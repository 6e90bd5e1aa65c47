"""Plays the public Synergy simulator, faults included, so that results can be compared by job.

Give it servers of 8 GPUs, 24 CPUs and 500 GB, `policy.trigger = "event"`, and the world
`synergy_rounds`, as examples/peers/synergy/ do; a trace in the format `synergy`. A round is 300 s
there and here. A run without restart costs, failures or quotas is the simulator's; others are
refused, or not what it plays.
"""

from pydantic import Field

from shunter.core.planning import Placement
from shunter.policies import PolicyParams
from shunter_peers.synergy.mechanisms import Mechanism
from shunter_peers.synergy.optimum import Solver
from shunter_peers.synergy.orders import Order
from shunter_peers.synergy.policy import SynergyPolicy
from shunter_peers.synergy.rounds import Rules


class SynergyPeerParams(PolicyParams):
    """What the simulator is started with."""

    order: Order = Field(
        default="fifo",
        description="who is tried first; `ftf` serves the best-off job first, as there",
    )
    mechanism: Mechanism = Field(
        default="tune", description="how CPUs and memory are divided; `proportional` is its `fair`"
    )
    place: bool = Field(
        default=False,
        description="whether GPUs are picked from the fullest servers, not by number: its `place`",
    )
    tolerance: float = Field(
        default=1e-9,
        ge=0,
        lt=1e-3,
        description="by how much a float may miss another and still fit; 0 is the simulator's "
        "comparison, by which jobs of 3, 5, 6 or 7 GPUs can find no room",
    )
    solver: Solver = Field(
        default="highs",
        description="who solves `opt`: `highs` as the simulator does, with the extra `solvers`; "
        "`exact`, our own method, needs nothing and breaks ties by a rule",
    )

    def record(self) -> dict[str, object]:
        """Return the table without a solver where nothing is solved."""
        document = super().record()
        if self.mechanism != "opt":
            del document["solver"]
        return document


class SynergyPeer:
    """The public Synergy simulator, with its faults."""

    name = "synergy_peer"
    oracle = False
    Params = SynergyPeerParams

    @staticmethod
    def build(params: SynergyPeerParams, placement: Placement) -> SynergyPolicy:
        """Return the policy, which has a placement of its own."""
        rules = Rules(params.order, params.mechanism, params.place, params.tolerance, params.solver)
        return SynergyPolicy("synergy_peer", rules)
