"""The decentralised scheme as it is configured (Xiao, SOSP student research competition 2017).

    order ──▶ who may start ──▶ job schedulers ──▶ proposals ──▶ approver ──▶ granted whole, or not
                                     ▲                                │
                                     └──── jittered back-off ◀────────┘

The order of the policy says which jobs may start. Where each goes is not its own plan's to say: the
job's scheduler proposes whole gangs from a view that may be stale, and the approver checks them on
the GPUs' state, whatever the version of that view.
"""

from typing import Protocol, runtime_checkable

from shunter.core.backoff import jittered_us
from shunter.core.interfaces import AnyPolicy
from shunter.core.rng import Rng
from shunter.core.state import Job
from shunter.events.records import fact


@fact
class Decentralised:
    """How job schedulers propose; durations in microseconds.

    `built_in`: each job has a scheduler here; otherwise callers of the daemon propose. A view is
    stale by up to `staleness_us`. A proposal names up to so many `candidates`. Who was rejected
    waits for `retry_us` at most before it proposes again, twice as long each time, up to
    `retry_most_us`. After `reserve_after` rejections in a row GPUs are kept for the job; for
    `reserve_for_us` at most where callers propose.
    """

    built_in: bool
    staleness_us: int
    candidates: int
    retry_us: int
    retry_most_us: int
    reserve_after: int
    reserve_for_us: int

    @property
    def looks_again_us(self) -> int:
        """How long a job scheduler waits that found no place in its view."""
        return max(1, self.staleness_us, self.retry_us)

    def retry_at(self, job: Job, rejected: int, now_us: int, seed: int) -> int:
        """Return when a job proposes again that was rejected so many times in a row."""
        rng = Rng(seed, "proposal", job.ordinal, rejected)
        return now_us + jittered_us(rejected, self.retry_us, self.retry_most_us, rng)


@runtime_checkable
class CanPropose(Protocol):
    """A policy that lets job schedulers propose what its plans start."""

    def with_scheme(self, scheme: Decentralised) -> AnyPolicy:
        """Return the policy with job schedulers that propose so."""
