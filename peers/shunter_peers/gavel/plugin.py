"""Plays the public Gavel simulator, faults included, so that results can be compared job by job.

Give it `[simulation.lease]` with whole steps and rounds that end with the last gang, and
`workload.throughputs`, as examples/peers/gavel/ do. What is odd in it stands in `rounds.py` and in
the rules of the mechanism; its policies are in `policy_table.py`. A job the simulator drops (a gang
with fewer steps left than GPUs) waits for ever here.

It solves with ECOS, and so is done here (`conic/`), because ECOS stops somewhere on an optimal face
that is no single point, and who runs when hangs on where. ECOS is an extra, of which nothing else
needs to know. With `solver = "centred"` fractions are the centre of the face, by our own method.
"""

from typing import Annotated, Any, Final

from pydantic import Field, field_validator

from shunter.core.planning import Placement
from shunter.events import GpuType
from shunter.policies import PolicyParams
from shunter_peers.gavel.policy import PeerRoundsPolicy, Solver
from shunter_peers.gavel.policy_table import POLICY_TABLE

Price = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PRICES: Final = {"v100": 0.74, "p100": 0.43, "k80": 0.135}


class GavelPeerParams(PolicyParams):
    """Which policy of the simulator to play."""

    policy: str = Field(
        default="isolated", description="a policy of the public simulator, by its name there"
    )
    seed: int = Field(
        default=0, ge=0, lt=1 << 31, description="the seed the simulator is started with"
    )
    solver: Solver = Field(
        default="ecos",
        description="who finds optimal fractions: `ecos` as the simulator does, to the last digit, "
        "with the extra of this name; `centred`, our own method, needs nothing but is not always "
        "where ECOS stops",
    )
    prices: dict[str, Price] = Field(
        default=PRICES,
        description="dollars an hour of a GPU by type, for policies normalized by cost; those of "
        "its recorded runs",
    )

    @field_validator("policy")
    @classmethod
    def _is_played(cls, policy: str) -> str:
        if policy not in POLICY_TABLE:
            raise ValueError(f"expected one of {', '.join(sorted(POLICY_TABLE))}")
        return policy

    def record(self) -> dict[str, Any]:
        """Return the table without a solver where nothing is solved: recorded as ever."""
        document = super().record()
        if POLICY_TABLE[self.policy].form is None:
            del document["solver"]
        return document


class GavelPeer:
    """The public Gavel simulator, with its faults."""

    name = "gavel_peer"
    oracle = False
    Params = GavelPeerParams

    @staticmethod
    def build(params: GavelPeerParams, placement: Placement) -> PeerRoundsPolicy:
        """Return the policy, which has a placement of its own."""
        prices = {GpuType(name): price for name, price in params.prices.items()}
        return PeerRoundsPolicy("gavel_peer", params.policy, params.seed, prices, params.solver)
