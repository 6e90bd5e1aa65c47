"""The public simulator of Gavel, written again from a description of what it does.

Everything is in float seconds and in the order of the original, faults included: a job that comes
between two resets has no allocation, seconds without work are booked as execution, gangs with
fewer steps left than GPUs fail, a pair ends with its slower half. The policy is a function that is
given the state at a reset; recorded allocations are one as well.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.peers.gavel_inputs import Gang, GavelJob, GavelTable

ROUND_S = 360
SEED_S = ROUND_S / 2
RESET_S = 1920
FASTEST_FIRST = ("v100", "p100", "k80")
FAILURES_MOST = 5

Fractions = Mapping[Gang, Mapping[str, float]]
Policy = Callable[["GavelRun"], Fractions]


@dataclass(slots=True)
class Going:
    """A gang in the current round."""

    gang: Gang
    gpu_type: str
    workers: tuple[int, ...]
    steps: tuple[int, ...]
    finish_s: float


@dataclass(slots=True)
class GavelRun:
    """The state of the simulator, and what it has found so far."""

    table: GavelTable
    servers: Mapping[str, Sequence[Sequence[int]]]
    policy: Policy
    shuffles: bool
    pairs_too: bool = False
    is_fifo: bool = False
    seed: int = 0
    now_s: float = 0.0
    last_reset_s: float = 0.0
    round_start_s: float = 0.0
    round_end_s: float = 0.0
    replan_needed: bool = False
    jobs: dict[int, GavelJob] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    failures: dict[int, int] = field(default_factory=dict)
    gangs: list[Gang] = field(default_factory=list)
    time_s: dict[tuple[Gang, str], float] = field(default_factory=dict)
    type_time_s: dict[str, float] = field(default_factory=dict)
    deficit: dict[tuple[Gang, str], float] = field(default_factory=dict)
    fractions: Fractions = field(default_factory=dict)
    going: list[Going] = field(default_factory=list)
    before: dict[Gang, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    jct_s: dict[int, float | None] = field(default_factory=dict)
    rounds: list[tuple[float, dict[Gang, tuple[int, ...]]]] = field(default_factory=list)
    shuffler: random.Random = field(default_factory=random.Random)

    @property
    def gpus(self) -> dict[str, int]:
        """How many GPUs there are of each type, in the order of their names."""
        return {name: sum(map(len, self.servers[name])) for name in sorted(self.servers)}

    def rate(self, gang: Gang, gpu_type: str) -> tuple[float, ...]:
        """Return the steps a second of each member of a gang."""
        return self.table.rates([self.jobs[number].kind for number in gang], gpu_type)

    def run(self, jobs: Sequence[GavelJob]) -> "GavelRun":
        """Play a trace to its end."""
        queued, idle = list(jobs), False
        self.shuffler.seed(self.seed + 5)
        self.type_time_s = dict.fromkeys(self.servers, 0.0)
        while len(self.jct_s) < len(jobs):
            if not queued and idle:
                self.last_reset_s = 0.0
            if self.going:
                self.round_start_s = self.round_end_s
                self.round_end_s = self.now_s = max(one.finish_s for one in self.going)
            elif queued:
                self.now_s = queued[0].arrival_s
            for one in sorted(self.going, key=lambda one: (-one.finish_s, len(one.gang), one.gang)):
                self._complete(one)
            while queued and queued[0].arrival_s <= self.now_s:
                self._add(queued.pop(0))
            priority = self._priorities()
            self._place(self._select(priority))
            idle = not self.going
        return self

    def _add(self, job: GavelJob) -> None:
        number = job.number
        self.left[number], self.failures[number] = job.steps, 0
        new: list[Gang] = [(number,)]
        if self.pairs_too:
            new += [(other, number) for other in self.jobs]
        self.jobs[number] = job
        self.gangs += new
        for gang in new:
            for name in self.servers:
                self.time_s[gang, name] = SEED_S if len(gang) == 1 else 0.0
                self.deficit[gang, name] = 0.0
        self.replan_needed = True

    def _remove(self, number: int, jct_s: float | None) -> None:
        del self.jobs[number]
        self.gangs = [gang for gang in self.gangs if number not in gang]
        self.jct_s[number] = jct_s
        self.replan_needed = True

    def _complete(self, one: Going) -> None:
        exec_s, name = one.finish_s - self.round_start_s, one.gpu_type
        workers = len(one.workers)
        shares = [
            (steps // workers, steps - steps // workers * (workers - 1)) for steps in one.steps
        ]
        if exec_s <= 0 or any(min(share) <= 0 for share in shares):
            self._fail(one.gang)
            return
        self.time_s[one.gang, name] += exec_s
        self.type_time_s[name] += exec_s
        for number, steps in zip(one.gang, one.steps, strict=True):
            self.left[number] -= steps
            self.failures[number] = 0
            if self.left[number] <= 0:
                self._remove(number, one.finish_s - self.jobs[number].arrival_s)

    def _fail(self, gang: Gang) -> None:
        self.replan_needed = True
        for number in gang:
            self.failures[number] += 1
            if self.failures[number] >= FAILURES_MOST:
                self._remove(number, None)

    def _reset(self) -> None:
        elapsed_s = self.now_s - self.last_reset_s
        for name in self.servers:
            self.type_time_s[name] = 0.0
            for gang in self.gangs:
                should_s = self.fractions.get(gang, {}).get(name, 0.0) * elapsed_s
                self.deficit[gang, name] += should_s - (self.time_s[gang, name] - SEED_S)
                self.time_s[gang, name] = SEED_S
                self.type_time_s[name] += SEED_S
        self.last_reset_s = self.now_s
        self.fractions = self.policy(self)
        self.replan_needed = False

    def _priorities(self) -> dict[tuple[Gang, str], float]:
        elapsed_s = self.now_s - self.last_reset_s
        if self.replan_needed and (elapsed_s >= RESET_S or self.last_reset_s == 0):
            self._reset()
        found = {}
        for name in self.servers:
            whole_s = self.type_time_s[name]
            for gang in self.gangs:
                target = self.fractions.get(gang, {}).get(name, 0.0)
                if target == 0 or min(self.rate(gang, name)) == 0:
                    found[gang, name] = 0.0
                    continue
                share = self.time_s[gang, name] / whole_s if whole_s else 0.0
                found[gang, name] = target / share if share else target * 1e9
        return found

    def _select(self, priority: Mapping[tuple[Gang, str], float]) -> dict[str, list[Gang]]:
        names = [name for name in FASTEST_FIRST if name in self.servers]
        if self.shuffles:
            self.shuffler.shuffle(names)
        taken: set[int] = set()
        chosen: dict[str, list[Gang]] = {}
        for name in names:
            free, picked = self.gpus[name], chosen.setdefault(name, [])

            def rank(gang: Gang, name: str = name) -> tuple[float, float, float]:
                target = self.fractions.get(gang, {}).get(name, 0.0)
                return priority[gang, name], self.deficit[gang, name], target

            for gang in sorted(self.gangs, key=rank, reverse=True):
                if not free:
                    break
                sizes = {self.jobs[number].gpus for number in gang}
                if taken.intersection(gang) or min(self.rate(gang, name)) <= 0:
                    continue
                if (self.is_fifo and priority[gang, name] <= 0) or len(sizes) > 1:
                    continue
                if max(sizes) <= free:
                    free -= max(sizes)
                    taken.update(gang)
                    picked.append(gang)
        return chosen

    def _place(self, chosen: Mapping[str, list[Gang]]) -> None:
        after: dict[Gang, tuple[str, tuple[int, ...]]] = {}
        for name, gangs in chosen.items():
            used: set[int] = set()
            line = iter([worker for server in self.servers[name] for worker in server])
            for size in sorted({self.jobs[gang[0]].gpus for gang in gangs}, reverse=True):
                alike = [gang for gang in gangs if self.jobs[gang[0]].gpus == size]
                for gang in alike:
                    was, workers = self.before.get(gang, ("", ()))
                    if was == name and not used.intersection(workers):
                        used.update(workers)
                        after[gang] = name, workers
                for gang in alike:
                    if gang in after or gang not in self.fractions:
                        continue
                    got: list[int] = []
                    while len(got) < size and (worker := next(line, None)) is not None:
                        if worker not in used:
                            got.append(worker)
                    if len(got) == size:
                        used.update(got)
                        after[gang] = name, tuple(got)
        self.going = [self._begin(gang, *where) for gang, where in after.items()]
        self.rounds.append((self.now_s, {gang: where[1] for gang, where in after.items()}))
        self.before = after

    def _begin(self, gang: Gang, name: str, workers: tuple[int, ...]) -> Going:
        rates = self.rate(gang, name)
        steps = tuple(
            min(int(rate * ROUND_S), self.left[number])
            for number, rate in zip(gang, rates, strict=True)
        )
        lasts_s = max(many / rate for many, rate in zip(steps, rates, strict=True))
        return Going(gang, name, workers, steps, self.now_s + lasts_s)
