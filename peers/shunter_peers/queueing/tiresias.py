"""Plays the public Tiresias simulator, faults included, so that results can be compared job by job.

What that means, point by point, stands in docs/explanation/tiresias-peer-setting.md. Give it
`trigger = "event"` and `simulation.world = "remembered_ends"`, as examples/peers/tiresias/ do, and
servers of one GPU type. For the paper's intent take the policies `tiresias` and `gittins`.
"""

from collections.abc import Callable
from typing import Final, Literal

from pydantic import Field

from shunter.core.planning import Placement
from shunter.policies import PolicyParams, builtin_history
from shunter_peers.queueing.index import Index
from shunter_peers.queueing.items import SECOND_US
from shunter_peers.queueing.memory import PeerMemory
from shunter_peers.queueing.policy import PeerPolicy
from shunter_peers.queueing.queues import Knob, QueuesMemory
from shunter_peers.queueing.shortest import ShortestMemory
from shunter_peers.queueing.sorted_queues import SortedQueuesMemory
from shunter_peers.queueing.timers import Timers

LIMITS: Final = (3250, 7200)
OFF: Final[Knob] = (0, 1)
KNOBS: Final[dict[str, Knob]] = {
    "dlas": OFF,
    "dlas-gpu": OFF,
    "dlas-gpu-05": (1, 2),
    **{f"dlas-gpu-{number}": (number, 1) for number in (1, 2, 4, 8, 10, 100, 1000)},
}
Schedule = Literal[
    "sjf",
    "shortest",
    "shortest-gpu",
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
    "dlas-gpu-gittins",
]
SHORTEST: Final = {"sjf": (True, False), "shortest": (False, True), "shortest-gpu": (True, True)}
HISTORY: Final = "yarn-gput1000"


class TiresiasPeerParams(PolicyParams):
    """Which schedule of the simulator to play."""

    schedule: Schedule = Field(
        default="dlas-gpu",
        description="a schedule of the public simulator, by its name there; the number at the end "
        "is its promotion knob (05 is one half)",
    )


class TiresiasPeer:
    """The public Tiresias simulator, with its faults."""

    name = "tiresias_peer"
    oracle = True
    Params = TiresiasPeerParams

    @staticmethod
    def build(params: TiresiasPeerParams, placement: Placement) -> PeerPolicy:
        """Return the policy."""
        schedule = params.schedule
        oracle = schedule in ("shortest", "shortest-gpu")
        return PeerPolicy("tiresias_peer", _maker(schedule), placement, oracle=oracle)


def _maker(schedule: str) -> Callable[[], PeerMemory]:
    """Return what makes the memory of a schedule."""
    if schedule in SHORTEST:
        by_gpus, by_length = SHORTEST[schedule]
        return lambda: ShortestMemory(by_gpus, by_length)
    if schedule == "dlas-gpu-gittins":
        index = Index([sample_us // SECOND_US for sample_us in builtin_history(HISTORY)])
        return lambda: SortedQueuesMemory(Timers(LIMITS, two_d=True), index)
    knob, two_d = KNOBS[schedule], schedule != "dlas"
    return lambda: QueuesMemory(Timers(LIMITS, two_d), knob)
