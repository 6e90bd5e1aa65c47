"""AlloX: the assignment of jobs to places in the queues of GPUs with the least sum of ends.

Le, Sun, Chowdhury, Liu, EuroSys 2020: a job at the k-th place from a GPU's last one adds its run
time k times to the sum, so the best order of everybody is one assignment problem. Jobs of one GPU
only. Who is first at its GPU has it until it ends; everybody else is assigned anew.
"""

from dataclasses import dataclass, field
from typing import Final

from shunter.events import GpuType
from shunter.policies.gavel import Demands, Fractions, Gang, JobRequest

NEVER_S: Final = 1e15  # how long a job takes where it cannot run
_INFINITE: Final = float("inf")


@dataclass(slots=True)
class Allox:
    """Whole GPUs for the first of each queue, kept until they end."""

    before: dict[Gang, GpuType] = field(default_factory=dict)

    def fractions(self, demands: Demands) -> Fractions:
        """Return ones and zeros."""
        kept: dict[Gang, GpuType] = {}
        free = dict(demands.gpus)
        waiting = []
        for request in demands.requests:
            name = self.before.get((request.job_id,))
            if name is None:
                waiting.append(request)
            else:
                kept[(request.job_id,)] = name
                free[name] -= 1
        gpus = [name for name, many in free.items() for _ in range(many)]
        if waiting and gpus:
            waiting.sort(key=lambda request: -request.age_s)
            kept.update(_first_of_each(demands, waiting, gpus))
        self.before = kept
        return {
            gang: {name: float(kept.get(gang) == name) for name in free}
            for gang in [(request.job_id,) for request in demands.requests]
        }


def _first_of_each(
    demands: Demands, waiting: list[JobRequest], gpus: list[GpuType]
) -> dict[Gang, GpuType]:
    """Return who comes first at each GPU in the best assignment, and what type it is."""
    costs = []
    for request in waiting:
        rates = {name: demands.rate(request, name) for name in dict.fromkeys(gpus)}
        lasts_s = [request.left / rates[name] if rates[name] else NEVER_S for name in gpus]
        places = range(1, len(waiting) + 1)
        costs.append([place * one_s + request.age_s for place in places for one_s in lasts_s])
    first: dict[int, tuple[int, int]] = {}
    for number, column in enumerate(least_cost(costs)):
        place, gpu = divmod(column, len(gpus))
        first[gpu] = max(first.get(gpu, (-1, -1)), (place, number))
    return {(waiting[number].job_id,): gpus[gpu] for gpu, (_, number) in first.items()}


def least_cost(costs: list[list[float]]) -> list[int]:
    """Return a column for each row so that the sum of costs is the least.

    Shortest augmenting paths with prices (Jonker and Volgenant, 1987); no more rows than columns.
    """
    columns = len(costs[0])
    row_prices, column_prices = [0.0] * len(costs), [0.0] * columns
    owners = [-1] * columns
    for row in range(len(costs)):
        least, came_from = [_INFINITE] * columns, [-1] * columns
        seen: list[int] = []
        unseen = list(range(columns))
        at, here = row, -1
        while True:
            step, there = _INFINITE, -1
            for column in unseen:
                slack = costs[at][column] - row_prices[at] - column_prices[column]
                if slack < least[column]:
                    least[column], came_from[column] = slack, here
                if least[column] < step:
                    step, there = least[column], column
            row_prices[row] += step
            for column in seen:
                row_prices[owners[column]] += step
                column_prices[column] -= step
            for column in unseen:
                least[column] -= step
            if owners[there] < 0:
                break
            seen.append(there)
            unseen.remove(there)
            at, here = owners[there], there
        while there >= 0:
            back = came_from[there]
            owners[there] = owners[back] if back >= 0 else row
            there = back
    found = [0] * len(costs)
    for column, owner in enumerate(owners):
        if owner >= 0:
            found[owner] = column
    return found
