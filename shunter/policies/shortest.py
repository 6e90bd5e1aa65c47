"""Smallest first: by time that is left, by work that is left of all resources, or by GPUs."""

from dataclasses import dataclass, field, replace

from shunter.core import Job, View
from shunter.core.planning import Placement
from shunter.core.ranking import IndexDefaults, Measure, RankedPolicy
from shunter.core.sizing import WHOLE, Demands
from shunter.core.speeds import SensitivityTable
from shunter.policies.params import PolicyParams

# Shortest first, by an oracle. A job of unknown length ranks last, behind those that run already.

UNKNOWN_US = 1 << 60


@dataclass(frozen=True)
class TotalDuration(IndexDefaults):
    """Ranks jobs by their whole run time in microseconds."""

    name: str = "sjf"
    oracle = True
    preemptive = False
    measures = (Measure.duration_us,)

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the run time at base speed, which never changes."""
        total_us = view.duration_us(job)
        return UNKNOWN_US if total_us is None else total_us, None


@dataclass(frozen=True)
class RemainingTime(IndexDefaults):
    """Ranks jobs by the run time they still need at base speed, in microseconds.

    A running job's rank falls as time passes, so it is keyed by the instant at which it would
    reach zero; waiting jobs keep theirs. Running jobs only improve, so no rank change by itself
    can alter the selection. The present speed does not count: it tells more of where a job was
    put than of how short it is, and two jobs on a slow GPU would chase each other from it.
    """

    name: str = "srtf"
    oracle = True
    drifts = True
    measures = (Measure.remaining_us,)

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the remaining time of a waiting job, when it is used up of a placed one."""
        remaining_us = view.remaining_us(job)
        if remaining_us is None:
            return UNKNOWN_US, None
        return (view.now_us + remaining_us if job.allocation.shares else remaining_us), None


@dataclass(frozen=True)
class RemainingService(IndexDefaults):
    """Ranks jobs by the GPU time they still need at base speed, in GPU-microseconds.

    The rank of a running job falls by its number of GPUs a microsecond, so it is told anew at
    every plan. Running jobs only improve, so no rank change by itself can alter the selection.
    """

    name: str = "shortest_gpu"
    oracle = True
    wanders = True
    measures = (Measure.remaining_gpu_us,)

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the remaining time at base speed times the GPUs of the gang.

        That is the gang for which the time is told, whatever size it has now.
        """
        remaining_us, gpus = view.remaining_us(job), job.submitted_spec.gpus
        return UNKNOWN_US if remaining_us is None else remaining_us * gpus, None


class Sjf:
    """Shortest job first by total duration, without preemption. An oracle."""

    name = "sjf"
    oracle = True
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(TotalDuration(), placement)


class Srtf:
    """Shortest remaining time first, with preemption. An oracle."""

    name = "srtf"
    oracle = True
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(RemainingTime(), placement)


class ShortestGpu:
    """Least remaining GPU time first, with preemption. An oracle."""

    name = "shortest_gpu"
    oracle = True
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(RemainingService(), placement)


# Least remaining work: time x the parts of the cluster demanded (Tetris, Grandl et al., SIGCOMM
# 2014, section 3.2), as Synergy orders jobs (Mohan et al., OSDI 2022, section 5).
#
# Deviation: Tetris adds how well a demand fits a server; here placement decides that. The remaining
# time is at base speed; Synergy's simulator divides it by the speed of the job's share.

NS = 1_000
"""Nanoseconds in a microsecond."""

KNOWN_MOST = (1 << 59) - 1
"""The rank of all known volumes beyond it: a whole cluster for six years or more."""


@dataclass(frozen=True)
class RemainingVolume(IndexDefaults):
    """Ranks jobs by remaining time x parts of the cluster, in nanoseconds.

    The rank of a running job falls at a pace of its own, so it is told anew at every plan. Running
    jobs only improve, so no rank change by itself can alter the selection.
    """

    demands: Demands = field(default_factory=Demands)
    name: str = "tetris"
    oracle = True
    wanders = True
    is_relative: bool = True
    measures = (Measure.cluster_ns,)

    def knowing(self, table: SensitivityTable) -> "RemainingVolume":
        """Return the index by the demands of a table."""
        return replace(self, demands=Demands(table))

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the remaining time at base speed x the sum of the parts demanded."""
        remaining_us = view.remaining_us(job)
        if remaining_us is None:
            return UNKNOWN_US, None
        volume_ns = remaining_us * NS * sum(self.demands.parts(job, view)) // WHOLE
        return min(KNOWN_MOST, volume_ns), None


class Tetris:
    """Least remaining work of all resources first, with preemption. An oracle."""

    name = "tetris"
    oracle = True
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(RemainingVolume(), placement)


# Smallest gang first, which the public simulator of Tiresias (NSDI 2019) calls sjf.


@dataclass(frozen=True)
class GangSize(IndexDefaults):
    """Ranks jobs by how many GPUs they need."""

    name: str = "smallest"
    measures = (Measure.gpus,)

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the number of GPUs, which never changes."""
        return job.spec.gpus, None


class Smallest:
    """The gang with the fewest GPUs goes first, and preempts larger ones."""

    name = "smallest"
    oracle = False
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(GangSize(), placement)
