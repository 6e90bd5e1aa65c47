"""Trials of a change: propose it, try it for a while, measure it, keep or revert it (Gandiva).

Whether a change helps is not predicted but measured, by the mini-batches of the jobs it touches
(Xiao et al., OSDI 2018: introspection). A policy proposes changes in its own order; what was
measured is remembered by models and type of GPU, so that a change that lost is not tried again
until one of these is another.

A job's normalised rate is its rate in the trial over its rate alone on its turn. Rates of several
jobs add up. The sum is compared with the sum as things were: 1 for each GPU that jobs have in
turns, since their shares of it add up to 1; the number of jobs where each has GPUs of its own.
All are whole millionths, rounded down, so that nothing is kept because of a rounding.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from shunter.errors import ConfigError
from shunter.events.values.ids import GpuType, JobId

__all__ = [
    "MILLION",
    "ChangeKey",
    "Proposal",
    "Trial",
    "TrialReason",
    "TrialRules",
    "Verdict",
    "next_proposal",
]

MILLION = 1_000_000
"""One, in the whole millionths in which normalised rates are counted."""


class TrialReason(StrEnum):
    """Why a trial ended as it did."""

    gained = "gained"
    lost = "lost"
    no_progress = "no_progress"
    not_measured = "not_measured"


@dataclass(frozen=True, slots=True)
class ChangeKey:
    """What verdicts go by: the change, the models in order, the type of GPU."""

    change: str
    models: tuple[str, ...]
    gpu_type: GpuType


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that could be tried.

    Attributes:
        key: what its verdict is remembered by.
        batch_us: the time of a mini-batch of each job it touches, as things are, on its turn.
        sum_now: the sum of the normalised rates as things are, in millionths.
    """

    key: ChangeKey
    batch_us: Mapping[JobId, int]
    sum_now: int


@dataclass(frozen=True, slots=True)
class TrialRules:
    """How long a change is tried, and by how much it has to be better.

    Attributes:
        probe_us: how long; at least a quantum, so that slicing had its say as well.
        quantum_us: the time of a turn.
        epsilon: by which part the sum has to exceed the one before, in millionths.

    Raises:
        ConfigError: the probe is shorter than a quantum, or epsilon is negative.
    """

    probe_us: int
    quantum_us: int
    epsilon: int = 0

    def __post_init__(self) -> None:
        """Refuse times and margins by which nothing could be told."""
        if self.quantum_us <= 0:
            raise ConfigError(f"a quantum of {self.quantum_us} us: expected more than 0")
        if self.probe_us < self.quantum_us:
            raise ConfigError(
                f"a probe of {self.probe_us} us is shorter than the quantum of "
                f"{self.quantum_us} us: set it to at least the quantum"
            )
        if self.epsilon < 0:
            raise ConfigError(f"an epsilon of {self.epsilon} millionths: expected 0 or more")

    def begin(self, proposal: Proposal, at_us: int) -> "Trial":
        """Return the trial of a proposal from now on."""
        return Trial(proposal, at_us, at_us + self.probe_us, self.epsilon)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a trial ended: the sum of normalised rates in it and before, in millionths."""

    reason: TrialReason
    sum_before: int
    sum_after: int

    @property
    def is_kept(self) -> bool:
        """Whether the change stays; otherwise it is reverted."""
        return self.reason is TrialReason.gained

    @property
    def is_loss(self) -> bool:
        """Whether it says that the change does not help: nothing measured says nothing."""
        return self.reason in (TrialReason.lost, TrialReason.no_progress)


@dataclass(frozen=True, slots=True)
class Trial:
    """A change that is being tried until the end of its probe."""

    proposal: Proposal
    started_us: int
    ends_us: int
    epsilon: int

    def judged(self, batch_us: Mapping[JobId, int | None], at_us: int) -> Verdict | None:
        """Return how it ended; None while the probe goes on.

        A job without progress ends it at once: it ran out of memory, or waits for one that did.

        Args:
            batch_us: the time of a mini-batch of each job in the trial; None: it made none since
                it failed. A job that is left out has not been measured yet.
            at_us: now.
        """
        jobs, before = self.proposal.batch_us, self.proposal.sum_now
        after = sum(
            alone_us * MILLION // taken_us
            for job_id, alone_us in jobs.items()
            if (taken_us := batch_us.get(job_id)) is not None
        )
        if any(job_id in batch_us and batch_us[job_id] is None for job_id in jobs):
            return Verdict(TrialReason.no_progress, before, after)
        if at_us < self.ends_us:
            return None
        if any(job_id not in batch_us for job_id in jobs):
            return Verdict(TrialReason.not_measured, before, after)
        # Both sides times a million: the margin is a part of the sum before.
        has_gained = after * MILLION > before * (MILLION + self.epsilon)
        return Verdict(TrialReason.gained if has_gained else TrialReason.lost, before, after)


def next_proposal(
    proposals: Iterable[Proposal], known: Mapping[ChangeKey, Verdict]
) -> Proposal | None:
    """Return the first proposal that is not known to lose; None: there is none."""
    for proposal in proposals:
        verdict = known.get(proposal.key)
        if verdict is None or not verdict.is_loss:
            return proposal
    return None
