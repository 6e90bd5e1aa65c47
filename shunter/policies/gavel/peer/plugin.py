"""Plays the public Gavel simulator, faults included, so that results can be compared job by job.

Give it `[simulation.lease]` with whole steps and rounds that end with the last gang, and
`workload.throughputs`, as examples/peers/gavel/ do. What is odd in it stands in `rounds.py` and in
the rules of the mechanism. Left out: pairs that share GPUs, because the core refuses them, and the
objectives that need a solver. A job the simulator drops (a gang with fewer steps left than GPUs)
waits for ever here. The objectives themselves are in `objectives/`.
"""

from collections.abc import Callable
from typing import Final, Literal

from pydantic import Field

from shunter.core.placement import Placement
from shunter.policies.gavel.mechanism import Targets, Twister
from shunter.policies.gavel.objectives import (
    Allox,
    FastestFirst,
    Isolated,
    Proportional,
    StaleFifo,
)
from shunter.policies.gavel.peer.policy import PeerRoundsPolicy
from shunter.policies.params import PolicyParams

__all__ = ["GavelPeer", "GavelPeerParams"]

OBJECTIVES: Final[dict[str, Callable[[], Targets]]] = {
    "allox": Allox,
    "fifo_perf": FastestFirst,
    "isolated": Isolated,
    "proportional": Proportional,
}
FASTEST_FIRST: Final = ("allox", "fifo_perf")
NEED_CLAIM: Final = ("fifo", "fifo_perf")


class GavelPeerParams(PolicyParams):
    """Which policy of the simulator to play."""

    policy: Literal["allox", "fifo", "fifo_perf", "isolated", "proportional"] = Field(
        default="isolated", description="a policy of the public simulator, by its name there"
    )
    seed: int = Field(
        default=0, ge=0, lt=1 << 31, description="the seed the simulator is started with"
    )


class GavelPeer:
    """The public Gavel simulator, with its faults."""

    name = "gavel_peer"
    oracle = False
    Params = GavelPeerParams

    @staticmethod
    def build(params: GavelPeerParams, placement: Placement) -> PeerRoundsPolicy:
        """Return the policy, which has a placement of its own."""
        policy = params.policy
        shuffles, needs_claim = policy not in FASTEST_FIRST, policy in NEED_CLAIM
        make = OBJECTIVES.get(policy, lambda: StaleFifo(Twister.seeded(params.seed)))
        return PeerRoundsPolicy("gavel_peer", make, shuffles, needs_claim, params.seed)
