"""Plays the public Tiresias simulator, faults included, so that results can be compared job by job.

What that means, point by point, stands in docs/explanation/tiresias-peer-setting.md. Give it
`trigger = "event"`, `placement = "first_fit"` and `[simulation] remembered_ends = true`, as
examples/peers/tiresias/ do. For the paper's intent take the policies `tiresias` and `gittins`.
"""

from typing import Final, Literal

from pydantic import Field

from shunter.core.placement import Placement
from shunter.policies.params import PolicyParams
from shunter.policies.peers.policy import PeerPolicy
from shunter.policies.peers.queues import Knob, QueuesMemory
from shunter.policies.peers.timers import Timers

__all__ = ["TiresiasPeer", "TiresiasPeerParams"]

LIMITS: Final = (3250, 7200)
OFF: Final[Knob] = (0, 1)
KNOBS: Final[dict[str, Knob]] = {
    "dlas": OFF,
    "dlas-gpu": OFF,
    "dlas-gpu-05": (1, 2),
    **{f"dlas-gpu-{number}": (number, 1) for number in (1, 2, 4, 8, 10, 100, 1000)},
}
Schedule = Literal[
    "dlas",
    "dlas-gpu",
    "dlas-gpu-05",
    "dlas-gpu-1",
    "dlas-gpu-2",
    "dlas-gpu-4",
    "dlas-gpu-8",
    "dlas-gpu-10",
    "dlas-gpu-100",
    "dlas-gpu-1000",
]


class TiresiasPeerParams(PolicyParams):
    """Which schedule of the simulator to play."""

    schedule: Schedule = Field(
        default="dlas-gpu",
        description="a schedule of the public simulator, by its name there; the number at the end "
        "is its promotion knob (05 is one half)",
    )


class TiresiasPeer:
    """The queues of the public Tiresias simulator, with its faults."""

    name = "tiresias_peer"
    oracle = False
    Params = TiresiasPeerParams

    @staticmethod
    def build(params: TiresiasPeerParams, placement: Placement) -> PeerPolicy:
        """Return the policy."""
        schedule = params.schedule
        knob, two_d = KNOBS[schedule], schedule != "dlas"

        def make() -> QueuesMemory:
            return QueuesMemory(Timers(LIMITS, two_d), knob)

        return PeerPolicy("tiresias_peer", make, placement, oracle=False)
