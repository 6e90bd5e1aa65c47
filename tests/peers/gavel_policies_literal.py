"""The policies of the public simulator of Gavel that need no solver, written again.

Each is a function of the state at a reset, or an object with a memory of its own where the
original has one. Fractions are by gang and GPU type.
"""

import random

from tests.peers.gavel_inputs import Gang
from tests.peers.gavel_literal import Fractions, GavelRun, Policy

Table = dict[Gang, dict[str, float]]


def isolated(run: GavelRun) -> Fractions:
    """Give every job its equal part of every type, over its GPUs."""
    found: Table = {}
    for number, job in run.jobs.items():
        row = {name: many / len(run.jobs) / job.gpus for name, many in run.gpus.items()}
        whole = max(sum(row.values()), 1.0)
        found[(number,)] = {name: part / whole for name, part in row.items()}
    return found


def fifo_perf(run: GavelRun) -> Fractions:
    """Let jobs in order take the fastest type with room; stop at the first that finds none."""
    free = run.gpus
    found: Table = {(number,): dict.fromkeys(free, 0.0) for number in run.jobs}
    for number, job in run.jobs.items():
        rooms = [name for name in free if free[name] >= job.gpus]
        if not rooms:
            break
        best = max(rooms, key=lambda name: run.rate((number,), name)[0])
        if run.rate((number,), best)[0] > 0:
            free[best] -= job.gpus
            found[(number,)][best] = 1.0
    return found


def fifo_packed(run: GavelRun) -> Fractions:
    """As `fifo_perf`; then pack the queue, but for the job that found no room, while it pays."""
    free = run.gpus
    placed: dict[Gang, str] = {}
    queue = [*run.jobs]
    while queue and any(many > 0 for many in free.values()):
        number = queue.pop(0)
        rooms = [name for name in free if free[name] >= max(1, run.jobs[number].gpus)]
        if not rooms:
            break
        rates = {name: run.rate((number,), name)[0] for name in rooms}
        best = max(rooms, key=rates.__getitem__)
        if rates[best] > 0:
            free[best] -= run.jobs[number].gpus
            placed[(number,)] = best
    while queue:
        number = queue.pop(0)
        sums = {gang: _sum_of(run, (*gang, number), name) for gang, name in placed.items()}
        found = [gang for gang, whole in sums.items() if whole > 1.5]
        if not found:
            break
        gang = max(found, key=sums.__getitem__)
        placed[gang[0], number] = placed.pop(gang)
    return {gang: {placed[gang]: 1.0} if gang in placed else {} for gang in run.gangs}


def _sum_of(run: GavelRun, gang: Gang, name: str) -> float:
    """Return what a pair of equal gangs does of its rates alone."""
    if len(gang) != 2 or len({run.jobs[number].gpus for number in gang}) > 1:
        return 0.0
    alone = [run.rate((number,), name)[0] for number in gang]
    return sum(rate / one for rate, one in zip(run.rate(gang, name), alone, strict=True) if one)


class Fifo:
    """First in, first out, where every job gets the type named last, however full it is.

    A random draw only says which type is struck off when the last one has no GPU left.
    """

    def __init__(self, seed: int = 0) -> None:
        self.given: dict[int, str] = {}
        self.draws = random.Random(seed)

    def __call__(self, run: GavelRun) -> Fractions:
        """Let the queue inherit the types of ended jobs, and give the rest what is named last."""
        free = run.gpus
        queue = [number for number in run.jobs if number not in self.given]
        for number, name in sorted(self.given.items()):
            if number in run.jobs:
                free[name] -= run.jobs[number].gpus
                continue
            del self.given[number]
            if queue and run.jobs[queue[0]].gpus <= free[name]:
                self._give(run, queue.pop(0), name, free)
        names = [name for name in free if free[name] > 0]
        while queue and names:
            number = queue.pop(0)
            rooms = [at for at, name in enumerate(names) if free[name] >= run.jobs[number].gpus]
            if not rooms:
                break
            drawn, name = rooms[self.draws.randrange(len(rooms))], names[-1]
            self._give(run, number, name, free)
            if free[name] == 0:
                names.pop(drawn)
        return {
            (number,): {name: float(self.given.get(number) == name) for name in free}
            for number in run.jobs
        }

    def _give(self, run: GavelRun, number: int, name: str, free: dict[str, int]) -> None:
        self.given[number] = name
        free[name] -= run.jobs[number].gpus


class Allox:
    """Each worker's first job of an assignment of least cost, where cost counts who waits."""

    def __init__(self) -> None:
        self.before: Fractions = {}

    def __call__(self, run: GavelRun) -> Fractions:
        """Assign the jobs that have no GPU to the GPUs that have no job."""
        found: Table = {(number,): dict.fromkeys(run.gpus, 0.0) for number in run.jobs}
        free = run.gpus
        waiting = []
        for gang in found:
            row = self.before.get(gang, {})
            if sum(row.values()) == 1.0:
                found[gang] = dict(row)
                for name, part in row.items():
                    free[name] -= part == 1.0
            else:
                waiting.append(gang[0])
        workers = [name for name, many in free.items() for _ in range(many)]
        waiting.sort(key=lambda number: -(run.now_s - run.jobs[number].arrival_s))
        waiting = waiting[: max(len(waiting), len(workers))]
        if waiting and workers:
            self._assign(run, waiting, workers, found)
        self.before = found
        return found

    def _assign(self, run: GavelRun, waiting: list[int], workers: list[str], found: Table) -> None:
        costs = []
        for number in waiting:
            lasts = [_lasts_s(run, number, name) for name in workers]
            waited_s = run.now_s - run.jobs[number].arrival_s
            places = range(1, len(waiting) + 1)
            costs.append([place * one + waited_s for place in places for one in lasts])
        columns = least_cost(costs)
        last: dict[int, tuple[int, int]] = {}
        for number, column in zip(waiting, columns, strict=True):
            place, worker = divmod(column, len(workers))
            last[worker] = max(last.get(worker, (-1, -1)), (place, number))
        for worker, (_, number) in last.items():
            found[(number,)][workers[worker]] = 1.0


def _lasts_s(run: GavelRun, number: int, name: str) -> float:
    rate = run.rate((number,), name)[0]
    return run.left[number] / rate if rate else 1e15


def least_cost(costs: list[list[float]]) -> list[int]:
    """Return a column for each row, so that the sum is the least (shortest augmenting paths)."""
    rows, columns = len(costs), len(costs[0])
    row_price, column_price = [0.0] * (rows + 1), [0.0] * (columns + 1)
    owner, way = [0] * (columns + 1), [0] * (columns + 1)
    for row in range(1, rows + 1):
        owner[0], at = row, 0
        least, seen = [float("inf")] * (columns + 1), [False] * (columns + 1)
        while owner[at]:
            seen[at] = True
            step, there = float("inf"), 0
            for column in range(1, columns + 1):
                if seen[column]:
                    continue
                cost = costs[owner[at] - 1][column - 1]
                slack = cost - row_price[owner[at]] - column_price[column]
                if slack < least[column]:
                    least[column], way[column] = slack, at
                if least[column] < step:
                    step, there = least[column], column
            for column in range(columns + 1):
                if seen[column]:
                    row_price[owner[column]] += step
                    column_price[column] -= step
                else:
                    least[column] -= step
            at = there
        while at:
            owner[at], at = owner[way[at]], way[at]
    found = [0] * rows
    for column in range(1, columns + 1):
        if owner[column]:
            found[owner[column] - 1] = column - 1
    return found


class Gandiva:
    """Random pairs of equal gangs while there are more jobs than GPUs."""

    def __init__(self, seed: int = 0) -> None:
        self.draws = random.Random(seed)
        self.partner: dict[int, int] = {}

    def __call__(self, run: GavelRun) -> Fractions:
        """Give every pair, and every job that is left over, an equal part of every type."""
        for number, other in [pair for pair in self.partner.items() if pair[0] < pair[1]]:
            if number not in run.jobs or other not in run.jobs or not self._pays(run, number):
                del self.partner[number], self.partner[other]
        crowded = sum(job.gpus for job in run.jobs.values()) > sum(run.gpus.values())
        if crowded:
            self._pair(run, [number for number in run.jobs if number not in self.partner])
        running: dict[Gang, None] = {}
        for number in run.jobs:
            other = self.partner.get(number, number) if crowded else number
            running[tuple(sorted({number, other}))] = None
        alike = [gang for gang in run.gangs if len({run.jobs[n].gpus for n in gang}) == 1]
        found: Table = {gang: {} for gang in alike}
        for gang in running:
            gpus = run.jobs[gang[0]].gpus
            row = {name: many / len(running) / gpus for name, many in run.gpus.items()}
            whole = max(sum(row.values()), 1.0)
            found[gang] = {name: part / whole for name, part in row.items()}
        return found

    def _pair(self, run: GavelRun, left: list[int]) -> None:
        for _ in [*left]:
            if len(left) > 1:
                one, two = self.draws.sample(left, 2)
                if run.jobs[one].gpus == run.jobs[two].gpus:
                    self.partner[one], self.partner[two] = two, one
                    left.remove(one)
                    left.remove(two)

    def _pays(self, run: GavelRun, number: int) -> bool:
        gang = tuple(sorted((number, self.partner[number])))
        whole = 0.0
        for name in run.gpus:
            rates = run.rate(gang, name)
            if min(rates) <= 0:
                return False
            whole += sum(rates[i] / run.rate((n,), name)[0] for i, n in enumerate(gang))
        return whole >= 1.0


def literal_policy(name: str) -> Policy:
    """Return a policy with an empty memory."""
    if name == "fifo":
        return Fifo()
    if name == "gandiva":
        return Gandiva()
    if name == "allox":
        return Allox()
    return {"isolated": isolated, "fifo_packed": fifo_packed, "fifo_perf": fifo_perf}[name]
