"""The public Synergy simulator once more, from the words of its description alone.

It gives out GPU by GPU, with every part of CPU, memory and storage as an exact fraction, as slowly
as the original. Numbers are seconds, cores and GB. It shares no code with Shunter, only the facts
about models; its whole interface is `peer_run`: jobs in, order and mechanism, ends out. `opt` is
not in it: that is a matter of the solver.

The references in brackets (C1 to C18) are the precise points of that description.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, floor
from pathlib import Path

ROUND = 300
ORDERS = ("fifo", "srtf", "las", "ftf", "drf", "tetris")
MECHANISMS = ("proportional", "tune", "greedy")
CPUS, MEMORY, STORAGE = range(3)
ARRIVAL, LEASE_END, SCHEDULE = 1, 3, 4
SERVER_GPUS = 8
SERVER = (Fraction(24), Fraction(500), Fraction(500))
FAIR = (Fraction(3), Fraction(125, 2), Fraction(125, 2))
FACTS = Path(__file__).resolve().parents[3] / "shunter/workloads/data/synergy.json"
MODELS = {
    name: model["on_servers"]["3"]
    for name, model in json.loads(FACTS.read_text(encoding="utf-8"))["models"].items()
}

Vector = tuple[Fraction, ...]


@dataclass(frozen=True)
class PeerJob:
    """A row of a trace."""

    job_id: str
    model: str
    arrival: float
    iterations: int
    gpus: int = 1


@dataclass(eq=False)
class Event:
    """An entry of the heap, which compares instants and kinds alone: equals leave it as it lies."""

    at: float
    kind: int
    job: PeerJob | None = None

    def __lt__(self, other: "Event") -> bool:
        return (self.at, self.kind) < (other.at, other.kind)


@dataclass
class Outcome:
    """What came of a run; the counts are those of C12."""

    ends: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    adjustments: int = 0
    peers: int = 0
    switches: int = 0
    is_stuck: bool = False


@dataclass(eq=False)
class Box:
    """A server: which GPUs are free, and what else."""

    free: list[int]
    rest: list[Fraction]

    def has(self, part: Vector, times: int = 1) -> bool:
        return all(have >= times * need for have, need in zip(self.rest, part, strict=True))

    def take(self, gpu: int, part: Vector) -> None:
        self.free.remove(gpu)
        self.rest = [have - need for have, need in zip(self.rest, part, strict=True)]

    def give(self, gpu: int, part: Vector) -> None:
        self.free = sorted([*self.free, gpu])
        self.rest = [have + need for have, need in zip(self.rest, part, strict=True)]


class Item:
    """A job that has arrived."""

    def __init__(self, job: PeerJob) -> None:
        facts = MODELS[job.model]
        self.job, self.gpus = job, job.gpus
        self.step: float = facts["iter_time_s"]
        self.left = job.iterations
        self.attained = 0
        self.freed: float = job.arrival
        self.bumped = False
        self.fair = tuple(part * job.gpus for part in FAIR)
        self.best, self.best_speed = self.capped(facts)
        self.speed = self.best_speed
        self.demand = self.best
        self.where: list[tuple[int, int]] = []
        self.credited = 0

    def capped(self, facts: dict[str, float]) -> tuple[Vector, float]:
        """Cut what is more than one server has (C14); storage is a constant."""
        speed = facts["speedup"]
        wanted = [Fraction(facts["cpus"]), Fraction(facts["memory_gb"]), FAIR[STORAGE]]
        wanted = [self.gpus * each for each in wanted]
        if self.gpus > SERVER_GPUS:
            pairs = zip(wanted, SERVER, self.fair, strict=True)
            return tuple(f if need > most else need for need, most, f in pairs), 1
        cut = [min(need, most) for need, most in zip(wanted, SERVER, strict=True)]
        if cut[CPUS] < wanted[CPUS]:
            most, fair = float(wanted[CPUS]), float(self.fair[CPUS])
            speed = 1 + (speed - 1) * (float(cut[CPUS]) - fair) / (most - fair)
        return tuple(cut), speed

    @property
    def part(self) -> Vector:
        return tuple(each / self.gpus for each in self.demand)

    def credit(self, speed: float) -> None:
        self.credited = min(self.left, floor(ROUND / (self.step / speed)))
        self.left -= self.credited


def peer_run(
    jobs: Sequence[PeerJob], order: str, mechanism: str, *, servers: int = 4, place: bool = False
) -> Outcome:
    """Return what the public simulator does with these jobs.

    Args:
        jobs: in the order of arrival.
        order: one of ORDERS.
        mechanism: one of MECHANISMS.
        servers: how many, of 8 GPUs, 24 CPUs and 500 GB.
        place: whether GPUs are picked from the fullest servers.
    """
    runnable, outcome, events = list[Item](), Outcome(), list[Event]()
    for job in jobs:
        heappush(events, Event(job.arrival, ARRIVAL, job))
    first = ceil(jobs[0].arrival / ROUND) * ROUND or 1  # a static trace begins at 0 (5.1)
    heappush(events, Event(first, SCHEDULE))
    while True:
        event = heappop(events)
        if event.job is not None:
            runnable.append(Item(event.job))
        if event.kind != SCHEDULE:
            continue
        now = int(event.at)
        runnable = [item for item in runnable if item.job.job_id not in outcome.ends]
        outcome.rounds += 1
        if not runnable:
            return outcome  # who arrives later is never looked at (5.5, 6)
        turn = _Round(runnable, order, mechanism, servers, outcome, place=place)
        turn.play(now)
        if outcome.is_stuck:
            return outcome
        for item in runnable:
            if item.where:
                heappush(events, Event(now + ROUND, LEASE_END))
                item.attained += ROUND
                item.freed = now + ROUND
                if not item.left:
                    outcome.ends[item.job.job_id] = now + ROUND
            elif now - item.freed > 1000 * 3600:
                item.bumped = True
        heappush(events, Event(now + ROUND, SCHEDULE))


class _Round:
    """One schedule event: sort, reset, allocate (C3)."""

    def __init__(
        self,
        runnable: list[Item],
        order: str,
        mechanism: str,
        servers: int,
        outcome: Outcome,
        *,
        place: bool,
    ) -> None:
        self.runnable, self.order, self.mechanism = runnable, order, mechanism
        self.boxes = [Box(list(range(SERVER_GPUS)), list(SERVER)) for _ in range(servers)]
        self.outcome, self.place = outcome, place
        self.placed: list[Item] = []

    def play(self, now: int) -> None:
        queue = self.in_order(now)
        for item in queue:
            item.speed, item.demand, item.where = item.best_speed, item.best, []
        if self.order == "las":
            queue = self.selected(queue)
            if self.mechanism == "tune":
                queue.sort(key=lambda item: -item.gpus)
        for item in queue:
            if item.gpus <= sum(len(box.free) for box in self.boxes):
                self.serve(item)

    def in_order(self, now: int) -> list[Item]:
        """Sort in place: equals are as the last round left them."""
        if self.order != "fifo":
            key = self.key(now)
            self.runnable.sort(key=lambda each: (-each.bumped, key(each), each.job.arrival))
        return list(self.runnable)

    def key(self, now: int) -> Callable[[Item], float]:
        count = len(self.boxes)
        cluster = [SERVER_GPUS * count, 24 * count, 500 * count]

        def remaining(item: Item) -> float:
            seconds = item.step * item.left
            return seconds if self.mechanism == "proportional" else seconds / item.speed

        def parts(item: Item) -> list[float]:
            wanted = [item.gpus, float(item.best[CPUS]), float(item.best[MEMORY])]
            return [need / have for need, have in zip(wanted, cluster, strict=True)]

        keys: dict[str, Callable[[Item], float]] = {
            "srtf": remaining,
            "las": lambda item: item.attained * item.gpus,
            "ftf": lambda item: (
                (now - item.job.arrival + remaining(item)) / (item.step * item.job.iterations)
            ),
            "drf": lambda item: max(parts(item)),
            "tetris": lambda item: remaining(item) * sum(parts(item)),
        }
        return keys[self.order]

    def selected(self, queue: Iterable[Item]) -> list[Item]:
        left, found = SERVER_GPUS * len(self.boxes), []
        for item in queue:
            if item.gpus <= left:
                left -= item.gpus
                found.append(item)
        return found

    def serve(self, item: Item) -> None:
        if self.mechanism == "proportional":
            item.demand = item.fair
            self.attempt(item, 1)
        elif not self.attempt(item, item.best_speed) and self.mechanism == "tune":
            self.tune(item)

    def tune(self, item: Item) -> None:
        if self.is_above_fair(item):
            item.demand, item.speed = item.fair, 1
            self.outcome.switches += 1
            if self.attempt(item, 1):
                return
        self.outcome.adjustments += 1
        chosen = self.choose(item.gpus)
        peers: list[Item] = []
        for number, gpus in chosen:
            peers += [each for each in self.peers(item, number, gpus) if each not in peers]
        self.outcome.peers += len(peers)
        for peer in peers:
            self.shrink(peer)
        if not self.attempt(item, item.speed):
            self.outcome.is_stuck = True

    def choose(self, gpus: int) -> list[tuple[int, int]]:
        """Return servers and GPUs on each, whatever CPU and memory there is (C9)."""
        free = [(len(box.free), number) for number, box in enumerate(self.boxes) if box.free]
        whole = [number for count, number in free if count >= gpus]
        if gpus > 1 and whole:
            return [(min(whole), gpus)]
        found = []
        for count, number in sorted(free):
            if gpus:
                found.append((number, min(gpus, count)))
                gpus -= min(gpus, count)
        return found

    def peers(self, item: Item, number: int, gpus: int) -> list[Item]:
        """Return who is taken on a server, until nothing is short any more (C10)."""
        box = self.boxes[number]
        zero = Fraction(0)
        need = [
            max(zero, part * gpus - have) for part, have in zip(item.part, box.rest, strict=True)
        ]
        there = [each for each in self.placed if number in {server for server, _ in each.where}]
        there.sort(
            key=lambda each: (
                len({server for server, _ in each.where}),
                -each.part[CPUS],
                -each.part[MEMORY],
            )
        )
        taken = []
        for peer in there:
            if not any(need):
                break
            on = sum(server == number for server, _ in peer.where)
            excess = [max(zero, (a - f) * on) for a, f in zip(peer.part, FAIR, strict=True)]
            need = [max(zero, short - more) for short, more in zip(need, excess, strict=True)]
            taken.append(peer)
        return taken

    def shrink(self, peer: Item) -> None:
        """Set a job to its fair share where it is, and credit it so (C11)."""
        for server, gpu in peer.where:
            self.boxes[server].give(gpu, peer.part)
        if self.is_above_fair(peer):
            peer.demand, peer.speed = peer.fair, 1
        for server, gpu in peer.where:
            self.boxes[server].take(gpu, peer.part)
        peer.left += peer.credited
        peer.credit(1)

    def attempt(self, item: Item, speed: float) -> bool:
        """Give GPUs one by one; give them back if they are too few."""
        whole = self.best_fit(item) if self.place and item.gpus > 1 else None
        part, dropped = item.part, set[int]()
        while len(item.where) < item.gpus:
            spot = whole if whole is not None else self.next_spot(part, dropped)
            if spot is None:
                for server, gpu in item.where:
                    self.boxes[server].give(gpu, part)
                item.where = []
                return False
            free = self.boxes[spot].free
            gpu = free[-1] if self.place and whole is None else free[0]
            self.boxes[spot].take(gpu, part)
            item.where.append((spot, gpu))
        self.placed.append(item)
        item.credit(speed)
        return True

    def next_spot(self, part: Vector, dropped: set[int]) -> int | None:
        """Return the server of the next GPU: by number, or the fullest (C18)."""
        spots = [
            number
            for number, box in enumerate(self.boxes)
            if box.free and number not in dropped and (self.place or box.has(part))
        ]
        if not self.place:
            return min(spots, default=None)
        for number in sorted(spots, key=lambda each: (len(self.boxes[each].free), each)):
            if self.boxes[number].has(part):
                return number
            dropped.add(number)
        return None

    def best_fit(self, item: Item) -> int | None:
        """Return the fullest server that has room for all of a job."""
        fits = [
            (len(box.free), number)
            for number, box in enumerate(self.boxes)
            if len(box.free) >= item.gpus and box.has(item.part, item.gpus)
        ]
        return min(fits)[1] if fits else None

    def is_above_fair(self, item: Item) -> bool:
        return any(have > fair for have, fair in zip(item.demand, item.fair, strict=True))
