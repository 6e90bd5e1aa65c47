"""The public Tiresias simulator once more, from the words of its description alone.

It steps from event to event and looks at every job each time, as slowly as the original. Numbers
are whole seconds. It shares no code with Shunter; its whole interface is `peer_run`: jobs in, a
schedule's name, ends out. `Quirks` switches its known faults off one by one.

The references in brackets (C1 to C10) are the precise points of that description.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

LIMITS = (3250, 7200)
QUANTUM = 3250
KNOBS = {
    "dlas": None,
    "dlas-gpu": None,
    "dlas-gpu-gittins": None,
    "dlas-gpu-05": Fraction(1, 2),
    **{f"dlas-gpu-{knob}": Fraction(knob) for knob in (1, 2, 4, 8, 10, 100, 1000)},
}
SCHEDULES = ("fifo", "fjf", "sjf", "shortest", "shortest-gpu", *KNOBS)


@dataclass(frozen=True)
class PeerJob:
    """A row of a job list."""

    job_id: str
    gpus: int
    submit_s: int
    duration_s: int


@dataclass(frozen=True)
class Quirks:
    """The faults that change results; all on is what the public simulator does.

    `rough_jumps`: the timer of a demotion divides GPU-seconds by GPUs and forgets that the time
    already run is not GPU time (4.1). `remembered_ends`: an arrival keeps the jobs that were to
    end with it (C3). `whole_sums`: the Gittins index sums whole samples, not what is left of them
    (4.2). `floored_mean`: the mean of the index is cut to a whole number (C1).
    """

    rough_jumps: bool = True
    remembered_ends: bool = True
    whole_sums: bool = True
    floored_mean: bool = True


ALL_ON = Quirks()


@dataclass(eq=False)
class Item:
    """A job on its way: clocks since the last promotion, and the queue it is in."""

    job: PeerJob
    left_s: int
    runs: bool = False
    executed_s: int = 0
    pending_s: int = 0
    queue: int = 0
    first_s: int | None = None


@dataclass
class Outcome:
    """What came of a run."""

    ends_s: dict[str, int] = field(default_factory=dict)
    first_s: dict[str, int] = field(default_factory=dict)
    preemptions: int = 0
    promotions: int = 0


def peer_run(
    jobs: Sequence[PeerJob],
    gpus: int,
    schedule: str,
    *,
    samples: Sequence[int] = (),
    quirks: Quirks = ALL_ON,
    limits: tuple[int, ...] = LIMITS,
) -> Outcome:
    """Return what the public simulator does with these jobs on so many GPUs.

    Args:
        jobs: in any order; they are sorted by submission, and ties keep their order (C10).
        gpus: of the whole cluster; where they are plays no part.
        schedule: one of SCHEDULES.
        samples: ascending GPU-seconds, for the Gittins index only.
        quirks: which faults are played.
        limits: the attained service at which a job leaves each queue but the last.
    """
    world = _World(jobs, gpus, quirks)
    if schedule in KNOBS:
        rank = gittins_table(samples, quirks) if schedule == "dlas-gpu-gittins" else None
        two_d = schedule != "dlas"
        _Queues(world, limits, KNOBS[schedule], rank, quirks, two_d=two_d).run()
    else:
        _List(world, schedule).run()
    return world.outcome


class _World:
    """Arrivals and ends, common to all schedules: what the next event is."""

    def __init__(self, jobs: Sequence[PeerJob], gpus: int, quirks: Quirks) -> None:
        self.coming = sorted(jobs, key=lambda job: job.submit_s)
        self.gpus = gpus
        self.remembers = quirks.remembered_ends
        self.active: list[Item] = []
        self.end_s: int | None = None
        self.ending: list[Item] = []
        self.kept: list[Item] = []
        self.checked_s = 0
        self.outcome = Outcome()

    def next_event(self, jump_s: int | None) -> tuple[int, list[Item], bool] | None:
        """Return its instant, who ends there, and whether jobs arrive; None: it is over."""
        arrives_s = self.coming[0].submit_s if self.coming else None
        if arrives_s is not None and arrives_s == self.end_s:
            self.kept = list(self.ending)
        at_s, ending, arrival = arrives_s, self.kept, True
        if self.end_s is not None and (arrives_s is None or self.end_s < arrives_s):
            at_s, ending, arrival = self.end_s, self.ending, False
        elif not self.remembers and arrives_s != self.end_s:
            ending = []
        if at_s is None:
            return None
        if jump_s is not None and jump_s < at_s:
            return jump_s, [], False
        if arrival:
            self.kept = []
        return at_s, ending, arrival

    def end(self, item: Item, at_s: int) -> None:
        self.active.remove(item)
        self.outcome.ends_s[item.job.job_id] = at_s

    def arrivals(self, at_s: int) -> list[Item]:
        found = []
        while self.coming and self.coming[0].submit_s == at_s:
            job = self.coming.pop(0)
            found.append(Item(job, job.duration_s))
        self.active += found
        return found

    def clock(self, item: Item, at_s: int) -> None:
        """Advance the clocks of one job to an event; a fresh one waits without a clock (C2)."""
        gone_s = at_s - max(self.checked_s, item.job.submit_s)
        if item.runs:
            item.left_s -= gone_s
            item.executed_s += gone_s
        elif item.executed_s:
            item.pending_s += gone_s

    def select(self, ordered: Sequence[Item], at_s: int) -> None:
        """Run whoever fits, in order; skip the others and go on."""
        free = self.gpus
        for item in ordered:
            fits = item.job.gpus <= free
            free -= item.job.gpus if fits else 0
            self.set_running(item, at_s, runs=fits)

    def set_running(self, item: Item, at_s: int, *, runs: bool) -> None:
        self.outcome.preemptions += item.runs and not runs
        if runs and item.first_s is None:
            item.first_s = self.outcome.first_s[item.job.job_id] = at_s
        item.runs = runs

    def foresee(self, at_s: int) -> None:
        """Find the next instant at which running jobs end, and which those are."""
        running = [item for item in self.active if item.runs]
        self.end_s = min((at_s + item.left_s for item in running), default=None)
        self.ending = [item for item in running if at_s + item.left_s == self.end_s]


class _Queues:
    """dlas and its kin: queues by attained service (4.1, C2 to C7)."""

    def __init__(
        self,
        world: _World,
        limits: tuple[int, ...],
        knob: Fraction | None,
        rank: Callable[[int], float] | None,
        quirks: Quirks,
        *,
        two_d: bool,
    ) -> None:
        self.world = world
        self.limits = limits
        self.knob = knob
        self.rank = rank
        self.two_d = two_d
        self.rough = quirks.rough_jumps
        self.queues: list[list[Item]] = [[] for _ in range(len(limits) + 1)]

    def run(self) -> None:
        world, jump_s = self.world, None
        while (event := world.next_event(jump_s)) is not None:
            at_s, ending, arrival = event
            for item in ending:
                self.queues[item.queue].remove(item)
                world.end(item, at_s)
            if arrival:
                self.queues[0] += world.arrivals(at_s)
            for item in world.active:
                world.clock(item, at_s)
                self.move(item)
            world.checked_s = at_s
            if self.rank is not None:
                for queue in self.queues:
                    queue.sort(key=self.standing)
            world.select([item for queue in self.queues for item in queue], at_s)
            for queue in self.queues:
                queue.sort(key=lambda item: not item.runs)
            world.foresee(at_s)
            jump_s = self.next_jump(at_s)

    def standing(self, item: Item) -> tuple[float, int]:
        assert self.rank is not None
        return -self.rank(item.job.gpus * item.executed_s), item.job.submit_s

    def move(self, item: Item) -> None:
        """Demote a running job that has had its share, promote one that waited (C4)."""
        width, queue = item.job.gpus if self.two_d else 1, item.queue
        if item.runs:
            if queue < len(self.limits) and width * item.executed_s >= self.limits[queue]:
                self.put(item, queue + 1)
        elif self.knob is not None and queue and item.executed_s and self.is_starved(item):
            self.put(item, 0)
            item.executed_s = item.pending_s = 0
            self.world.outcome.promotions += 1

    def is_starved(self, item: Item) -> bool:
        return self.until_promotion(item) <= 0

    def until_promotion(self, item: Item) -> int:
        return int((self.knob or 0) * item.executed_s) - item.pending_s

    def put(self, item: Item, queue: int) -> None:
        self.queues[item.queue].remove(item)
        self.queues[queue].append(item)
        item.queue = queue

    def next_jump(self, at_s: int) -> int | None:
        """Return the next timer. One of no length would stop the clock, and is none."""
        waits = (self.until_jump(item) for item in self.world.active)
        return min((at_s + wait for wait in waits if wait is not None and wait > 0), default=None)

    def until_jump(self, item: Item) -> int | None:
        executed_s = item.executed_s
        if not item.runs:
            if self.knob is None or not item.queue or not executed_s:
                return None
            return self.until_promotion(item)
        if item.queue == len(self.limits):
            return None
        limit, width = self.limits[item.queue], item.job.gpus if self.two_d else 1
        if self.rough:
            return (limit - executed_s) // width
        return -(-limit // width) - executed_s


class _List:
    """fifo and fjf, which never preempt, and the shortest-first ones, which do (4.3, C8)."""

    def __init__(self, world: _World, schedule: str) -> None:
        self.world = world
        self.schedule = schedule
        self.items: list[Item] = []

    def run(self) -> None:
        world = self.world
        while (event := world.next_event(None)) is not None:
            at_s, ending, arrival = event
            for item in ending:
                self.items.remove(item)
                world.end(item, at_s)
            if arrival:
                self.items += world.arrivals(at_s)
            for item in world.active:
                world.clock(item, at_s)
            world.checked_s = at_s
            if self.schedule in ("fifo", "fjf"):
                self.fill(at_s)
            else:
                self.items.sort(key=self.length)
                world.select(self.items, at_s)
            world.foresee(at_s)

    def fill(self, at_s: int) -> None:
        free = self.world.gpus - sum(item.job.gpus for item in self.items if item.runs)
        for item in self.items:
            if item.runs:
                continue
            if item.job.gpus <= free:
                free -= item.job.gpus
                self.world.set_running(item, at_s, runs=True)
            elif self.schedule == "fifo":
                break

    def length(self, item: Item) -> int:
        if self.schedule == "sjf":
            return item.job.gpus
        return item.left_s * (item.job.gpus if self.schedule == "shortest-gpu" else 1)


def gittins_table(samples: Sequence[int], quirks: Quirks = ALL_ON) -> Callable[[int], float]:
    """Return the index by attained GPU-seconds, read off a table as the peer does (4.2, C1)."""
    values = [_index_at(samples, sample - 1, quirks) for sample in samples]

    def rank(attained: int) -> float:
        place = bisect_right(samples, attained)
        return values[place] if place < len(values) else 0.0

    return rank


def _index_at(samples: Sequence[int], attained: int, quirks: Quirks) -> float:
    count = len(samples)
    first = bisect_right(samples, attained)
    beyond = attained + QUANTUM
    last = count - 1 if beyond > samples[-1] - 1 else bisect_right(samples, beyond)
    ahead = count - first
    spent = 0 if quirks.whole_sums else attained
    total = sum(sample - spent for sample in samples[first:last]) + QUANTUM * (count - last)
    chance = _rounded((last - first) / ahead, 5)
    mean = total // ahead if quirks.floored_mean else _rounded(total / ahead, 5)
    return _rounded(1_000_000 * chance / mean, 4)


def _rounded(value: float, places: int) -> float:
    """Return a float rounded as Python 2 does it: by its exact value, half away from zero."""
    return float(Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))
