"""Which GPUs the chosen gangs get: those that ran keep theirs, the rest take the first free ones.

Larger gangs go first. Among equally large ones, each that ran on the same type in the round before
keeps its GPUs if nobody has taken one of them; then the others fill the type from its first GPU on,
and the place up to which it is filled never goes back.
"""

from collections.abc import Container, Mapping, Sequence

from shunter.events import GpuType, fact
from shunter.policies.gavel import Gang
from shunter_peers.gavel.selection import Chosen, Gangs


@fact
class Seat:
    """The GPUs of one gang in one round, by their numbers in the cluster."""

    gpu_type: GpuType
    gpus: tuple[int, ...]


Seated = dict[Gang, Seat]


def seat(
    chosen: Chosen,
    gangs: Gangs,
    numbers: Mapping[GpuType, Sequence[int]],
    before: Mapping[Gang, Seat],
    planned: Container[Gang],
) -> Seated:
    """Return where each gang runs; a new one that is not planned runs nowhere."""
    seated: Seated = {}
    for gpu_type, picked in chosen.items():
        taken: set[int] = set()
        free = iter(numbers[gpu_type])
        for gpus in sorted({gangs.gpus(gang) for gang in picked}, reverse=True):
            alike = [gang for gang in picked if gangs.gpus(gang) == gpus]
            new = []
            for gang in alike:
                last = before.get(gang)
                if last is not None and last.gpu_type == gpu_type and taken.isdisjoint(last.gpus):
                    taken.update(last.gpus)
                    seated[gang] = last
                else:
                    new.append(gang)
            for gang in new:
                if gang not in planned:
                    continue
                got: list[int] = []
                while len(got) < gpus and (number := next(free, None)) is not None:
                    if number not in taken:
                        got.append(number)
                if len(got) == gpus:
                    taken.update(got)
                    seated[gang] = Seat(gpu_type, tuple(got))
    return seated
