"""Plays the schedulers of the public Blox simulator, so that its published averages come out again.

Its LAS ranks by seconds of running, whatever the GPUs, and its SRTF by seconds left; its Tiresias
class is LAS under another name. The pass stops at the first job that does not fit. Give them
rounds of 300 s, whose ends are the only instants at which jobs end: `end_seen = "at_lease_end"` and
`credit = "at_grant"`, as examples/peers/blox/ do. Its FIFO is the policy `fifo`, seen so.

Deviation: from `las` and `srtf` in the stop and, for gangs, in what LAS counts; on purpose.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from shunter.core import Job, View
from shunter.core.planning import Placement
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.policies import PolicyParams

UNKNOWN_US = 1 << 60


@dataclass(frozen=True)
class RunTime:
    """Ranks jobs by the microseconds they have run; those of running jobs grow."""

    name: str = "blox_peer"
    version: str = "1"
    oracle: bool = False
    preemptive: bool = True
    drifts: bool = False
    wanders: bool = False
    misfit: Misfit = Misfit.stops

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the time run, which is another one at the next round."""
        run_us = job.occupied_us(view.now_us)
        return run_us, view.now_us + 1 if job.since_us is not None else None


@dataclass(frozen=True)
class TimeLeft:
    """Ranks jobs by the microseconds they have left; those of running jobs shrink."""

    name: str = "blox_peer"
    version: str = "1"
    oracle: bool = True
    preemptive: bool = True
    drifts: bool = True
    wanders: bool = False
    misfit: Misfit = Misfit.stops

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the time left of a waiting job, when it is used up of a placed one."""
        left_us = view.remaining_us(job)
        if left_us is None:
            return UNKNOWN_US, None
        return (view.now_us + left_us if job.allocation.shares else left_us), None


class BloxPeerParams(PolicyParams):
    """Which scheduler to play."""

    schedule: Literal["las", "srtf"] = Field(
        default="las", description="a scheduler of the public simulator; its FIFO is `fifo`"
    )

    @property
    def needs_rounds(self) -> str:
        """Why it decides in rounds only, as the simulator that it plays does."""
        if self.schedule != "las":
            return ""
        return (
            "blox_peer with schedule = 'las' ranks by the time run, which changes all the time: "
            "expected policy.trigger = 'round'"
        )


class BloxPeer:
    """The schedulers LAS and SRTF of the public Blox simulator. SRTF is an oracle."""

    name = "blox_peer"
    oracle = True
    Params = BloxPeerParams

    @staticmethod
    def build(params: BloxPeerParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(TimeLeft() if params.schedule == "srtf" else RunTime(), placement)
