"""Who runs in the next round: greedily, one GPU type after the other, gangs whole.

On each type the gangs are gone through by priority. One that does not fit any more is passed over,
and smaller ones behind it may still fit; one with no claim left is taken while there is room, so
that no GPU idles for which there is work (OSDI 2020, section 5, algorithm 1).
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Protocol

from shunter.events import GpuType, JobId
from shunter.policies.gavel import Gang
from shunter_peers.gavel.ledger import Ledger

Chosen = dict[GpuType, list[Gang]]
Rank = tuple[float, float, float]


class Gangs(Protocol):
    """What has to be known of gangs to choose among them."""

    def gpus(self, gang: Gang) -> int:
        """Return how many GPUs it needs; 0 if its jobs cannot be together."""

    def can_run(self, gang: Gang, gpu_type: GpuType) -> bool:
        """Say whether all its jobs get on there."""


def select(
    ledger: Ledger,
    gangs: Gangs,
    order: Sequence[GpuType],
    room: Mapping[GpuType, int],
    *,
    needs_claim: bool = False,
) -> Chosen:
    """Return the gangs to run on each type, in the order in which they were chosen.

    Args:
        ledger: who is known, and how far behind their targets they are.
        gangs: how large they are, and where they can run.
        order: the types, the one to be filled first in front.
        room: whole GPUs of each type.
        needs_claim: leave gangs without a target on the type out, although there is room.
    """
    taken: set[JobId] = set()
    chosen: Chosen = {}
    for gpu_type in order:
        left, picked = room[gpu_type], chosen.setdefault(gpu_type, [])
        if not left:
            continue
        for (claim, _, _), gang in _ranked(ledger, gangs, gpu_type, taken):
            if not left:
                break
            if (needs_claim and claim <= 0) or not taken.isdisjoint(gang):
                continue
            gpus = gangs.gpus(gang)
            if 0 < gpus <= left:
                left -= gpus
                taken.update(gang)
                picked.append(gang)
    return chosen


def _ranked(
    ledger: Ledger, gangs: Gangs, gpu_type: GpuType, taken: set[JobId]
) -> list[tuple[Rank, Gang]]:
    """Return the gangs that get on on a type, the highest first, equals by arrival."""
    found = [
        (ledger.rank(gang, gpu_type), gang)
        for gang in ledger.received_s
        if taken.isdisjoint(gang) and gangs.can_run(gang, gpu_type)
    ]
    found.sort(key=_rank_of, reverse=True)
    return found


_rank_of = itemgetter(0)
