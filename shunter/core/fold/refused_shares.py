"""What an attempt keeps though it was to have other CPUs or memory: its server refused these.

Other jobs may have been given what it was to give up. What is booked is what is true from then on,
so a server may have less than nothing left: nobody is given anything of it then. Jobs that wait to
be launched there are displaced, the last first, as far as that helps; who runs, runs on, and the
next plan takes back what it can.
"""

from shunter.core.fold.attempt_transitions import attempt_of
from shunter.core.fold.displacement import take_back_grants
from shunter.core.state import FoldResult, State
from shunter.errors import IllegalEventError
from shunter.events.facts.execution import ReshapeRefused
from shunter.events.values.allocation import Allocation, Share


def reshape_refused(state: State, event: ReshapeRefused) -> FoldResult | None:
    """Book what an attempt keeps, and ask it for nothing else.

    Where it was to have yet other shares meanwhile, those are asked for, and this is a note.
    """
    job = attempt_of(state, event.job_id, event.attempt, "ReshapeRefused")
    if len(event.wanted) != len(event.kept) or not all(map(_is_beside, event.wanted, event.kept)):
        raise IllegalEventError(f"job {job.job_id} cannot keep {event.kept} for {event.wanted}")
    held = job.held
    if not all(share in held.shares for share in event.wanted):
        return None
    kept = dict(zip(event.wanted, event.kept, strict=True))
    now = Allocation(tuple([kept.get(share, share) for share in held.shares]), held.sharing)
    stays = job.allocation == held
    job.held = now
    if not stays:  # what it leaves is booked for it no more
        return None
    state.cluster.reshape(held.shares, now.shares)
    job.allocation, job.keeps_shares = now, job.attempt
    return take_back_grants(state, [share.node for share in event.kept], event.at_us)


def _is_beside(wanted: Share, kept: Share) -> bool:
    """Say whether two shares are amounts beside the same GPUs."""
    same = wanted.node == kept.node and wanted.gpu_mask == kept.gpu_mask
    return same and kept.cpus_milli >= 0 and kept.memory_mb >= 0
