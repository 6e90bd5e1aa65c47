"""dlas, dlas-gpu and dlas-gpu-N of the public Tiresias simulator (Gu et al., NSDI 2019).

An event of the simulator looks at every job: it advances the clocks, moves those that have had
their share (or waited long enough) to another queue, runs through all queues in order and gives
GPUs to whoever fits, and puts the running jobs of each queue before its waiting ones. Here
only what changes is touched. After an event a queue is its running jobs, then its waiting ones, so
running jobs keep their GPUs as a block unless higher queues need them, and of waiting jobs that ask
for the same only a prefix can start.

Deviation: from the paper, on purpose and in many points: docs/explanation/tiresias-peer-setting.md.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import attrgetter

from shunter.events import DERIVED, Demand, JobId
from shunter_peers.queueing.items import Item
from shunter_peers.queueing.timers import NEVER_S, Timers

Knob = tuple[int, int]
"""The promotion knob as a fraction, numerator and denominator; (0, 1): nobody is promoted."""
_by_arrival = attrgetter("ordinal")


@dataclass(slots=True)
class Line:
    """One queue: running jobs in order, and waiting ones in order by what they need."""

    running: dict[int, Item] = field(default_factory=dict)
    gpus: int = 0
    waiting: dict[Demand, deque[Item]] = field(default_factory=dict)
    waits: int = 0


@dataclass(slots=True)
class QueuesMemory:
    """Three queues, as the simulator has them after its last event."""

    timers: Timers = field(metadata=DERIVED)
    knob: Knob = (0, 1)
    items: dict[JobId, Item] = field(default_factory=dict)
    capacity: int = 0
    seen_s: int = 0
    wake_s: int | None = None
    due: bool = False
    places: int = 0
    heads: int = 0
    started: list[Item] = field(default_factory=list, metadata=DERIVED)
    stopped: list[Item] = field(default_factory=list, metadata=DERIVED)
    lines: list[Line] = field(default_factory=list, metadata=DERIVED)
    count: int = field(default=0, metadata=DERIVED)
    promotions: list[tuple[int, int, JobId]] = field(default_factory=list, metadata=DERIVED)
    overdue: list[Item] = field(default_factory=list, metadata=DERIVED)

    def __post_init__(self) -> None:
        self.lines = [Line() for _ in range(len(self.timers.limits) + 1)]

    def arrive(self, item: Item) -> None:
        """Let a job wait at the end of the first queue, or of the one it was in."""
        self.items[item.job_id] = item
        self._wait_last(item)
        self.due = True

    def catch_up(self, now_s: int) -> None:
        """Play the events before an instant, at which nobody waited.

        They cannot have changed who runs. So long as nobody crosses a limit they
        changed nothing at all, and are not even looked for.
        """
        if self.count:
            return
        if self.wake_s is not None and self.wake_s < now_s:
            self._play(self.wake_s)
        while self.timers.crosses_s < now_s:
            next_s = self.timers.next_look(self.seen_s)
            if next_s >= now_s:
                break
            self._play(next_s)

    def leave(self, item: Item, now_s: int) -> None:
        """Forget a job. An event that changes nobody can be played later."""
        self.items.pop(item.job_id, None)
        if item.runs:
            line = self.lines[item.queue]
            del line.running[item.ordinal]
            line.gpus -= item.gpus
            item.begun_s = -1
        else:
            self._unwait(item)
        if self.due:
            return
        if self.count and self._matters(now_s):
            self.due = True
        elif now_s >= self.timers.crosses_s:
            self.wake_s = now_s
        else:
            self.seen_s, self.wake_s = now_s, None
            if self.count:
                self._foresee(now_s)

    def _matters(self, now_s: int) -> bool:
        """Say whether an event now, after an end, could start or move anybody."""
        if now_s >= self.timers.crosses_s or self.overdue:
            return True
        if self.promotions and now_s >= self.promotions[0][0]:
            return True
        free = self.capacity
        for line in self.lines:
            free -= line.gpus
            if line.waits:
                for demand, items in line.waiting.items():
                    if demand.gpus <= free and items:
                        return True
        return False

    def fall_back(self, item: Item, now_s: int) -> None:
        """Let a running job wait, first of its queue."""
        del self.lines[item.queue].running[item.ordinal]
        self._stop(item, now_s)
        self._wait_first(item)
        self._expect(item, now_s)
        self.due = True

    def go_on(self, item: Item, now_s: int) -> None:
        """Let a waiting job run, last of those that do."""
        self._unwait(item)
        self._start(item, now_s)
        self.due = True

    def event(self, now_s: int) -> None:
        """Play one event: moves in order of arrival, the pass, the next look."""
        self.started, self.stopped = [], []
        self.due = False
        self._play(now_s)

    def _play(self, now_s: int) -> None:
        demoted: list[Item] = []
        if now_s >= self.timers.crosses_s or self.promotions or self.overdue:
            demoted = self._move(now_s)
        self.seen_s, self.wake_s = now_s, None
        if self.count:
            self._pass(now_s, demoted)
            if self.count:
                self._foresee(now_s)
        else:
            for item in demoted:
                self._keep(item)

    @property
    def alarm_s(self) -> int | None:
        """When an event is due that could change who runs."""
        return self.wake_s if self.count else None

    def waiting(self) -> list[Demand]:
        """Return what waiting jobs ask for."""
        if not self.count:
            return []
        every = [pair for line in self.lines for pair in line.waiting.items()]
        return [demand for demand, items in every if items]

    def _move(self, now_s: int) -> list[Item]:
        """Demote and promote; return those demoted.

        They still run, and are last in their queue. All are taken in order of arrival, whatever
        queue they come from.
        """
        lines = self.lines
        demoted = self.timers.crossed(now_s)
        for item in demoted:
            line = lines[item.queue]
            del line.running[item.ordinal]
            line.gpus -= item.gpus
            item.queue += 1
        demoted.sort(key=_by_arrival)
        for item in self._promoted(now_s):
            self._unwait(item)
            item.queue = item.executed_s = item.pending_s = 0
            item.since_s = now_s
            self._wait_last(item)
        return demoted

    def _promoted(self, now_s: int) -> list[Item]:
        """Return the waiting jobs whose time has come, in order of arrival."""
        found, self.overdue = self.overdue, []
        promotions = self.promotions
        while promotions and promotions[0][0] <= now_s:
            due_s, _, job_id = heappop(promotions)
            item = self.items.get(job_id)
            if item is not None and self._promotes_s(item) == due_s:
                found.append(item)
        found = [item for item in found if self._promotes_s(item) <= now_s]
        return sorted([item for item in found if item.job_id in self.items], key=_by_arrival)

    def _pass(self, now_s: int, demoted: list[Item]) -> None:
        """Run whoever fits, queue by queue: the running, the waiting, the just demoted."""
        free = self.capacity
        for number, line in enumerate(self.lines):
            left: list[Item] = []
            if line.gpus <= free:
                free -= line.gpus
            else:
                left, free = self._displaced(line, free)
            if line.waits and free:
                free = self._fill(line, free, now_s)
            for item in demoted:
                if item.queue != number:
                    continue
                if item.gpus <= free:
                    free -= item.gpus
                    self._keep(item)
                else:
                    self._stop(item, now_s, counted=False)
                    self.stopped.append(item)
                    self._wait_last(item)
                    self._expect(item, now_s)
            for item in left:
                self._stop(item, now_s)
            self.stopped += left
            for item in reversed(left):
                self._wait_first(item)
                self._expect(item, now_s)

    def _keep(self, item: Item) -> None:
        """Let a job that was demoted run on, last in its new queue."""
        line = self.lines[item.queue]
        self.places += 1
        item.place = self.places
        line.running[item.ordinal] = item
        line.gpus += item.gpus
        self.timers.add(item)

    def _displaced(self, line: Line, free: int) -> tuple[list[Item], int]:
        """Return the running jobs of a queue that no longer fit, and what is left free."""
        left = []
        for item in line.running.values():
            if item.gpus <= free:
                free -= item.gpus
            else:
                left.append(item)
        for item in left:
            del line.running[item.ordinal]
        return left, free

    def _fill(self, line: Line, free: int, now_s: int) -> int:
        """Start the waiting jobs of a queue that fit, in order; return what is left free."""
        waiting = line.waiting
        while True:
            first: Item | None = None
            for demand, items in waiting.items():
                if (
                    items
                    and demand.gpus <= free
                    and (first is None or items[0].place < first.place)
                ):
                    first = items[0]
            if first is None:
                return free
            waiting[first.demand].popleft()
            line.waits -= 1
            self.count -= 1
            self._start(first, now_s)
            self.started.append(first)
            free -= first.gpus

    def _start(self, item: Item, now_s: int) -> None:
        if item.executed_s:
            item.pending_s += now_s - item.since_s
        item.since_s = now_s
        item.runs = True
        self.places += 1
        item.place = self.places
        line = self.lines[item.queue]
        line.running[item.ordinal] = item
        line.gpus += item.gpus
        item.begun_s = now_s - item.executed_s
        self.timers.add(item)

    def _stop(self, item: Item, now_s: int, *, counted: bool = True) -> None:
        """Stop the clock of a job that runs, and is `counted` in its queue."""
        item.executed_s += now_s - item.since_s
        item.since_s = now_s
        item.runs = False
        item.begun_s = -1
        if counted:
            self.lines[item.queue].gpus -= item.gpus

    def _expect(self, item: Item, now_s: int) -> None:
        """Note when a job that waits from now on is to be promoted."""
        if self.knob[0] and item.queue and item.executed_s:
            due_s = self._promotes_s(item)
            if due_s > now_s:
                heappush(self.promotions, (due_s, item.ordinal, item.job_id))
            else:
                self.overdue.append(item)

    def _promotes_s(self, item: Item) -> int:
        """Return when a waiting job will have waited N times what it has run."""
        if item.runs or not item.queue:
            return NEVER_S
        above, below = self.knob
        return item.since_s - item.pending_s + above * item.executed_s // below

    def _foresee(self, now_s: int) -> None:
        """Find the next instant at which to look though nothing arrives or ends."""
        next_s = self.timers.next_look(now_s, each=bool(self.overdue))
        promotions = self.promotions
        while promotions and promotions[0][0] < next_s:
            due_s, _, job_id = promotions[0]
            item = self.items.get(job_id)
            if item is not None and self._promotes_s(item) == due_s:
                next_s = due_s
            else:
                heappop(promotions)
        self.wake_s = None if next_s == NEVER_S else next_s

    def _wait_last(self, item: Item) -> None:
        self.places += 1
        item.place = self.places
        self._waiting_like(item).append(item)
        self.lines[item.queue].waits += 1
        self.count += 1

    def _wait_first(self, item: Item) -> None:
        self.heads -= 1
        item.place = self.heads
        self._waiting_like(item).appendleft(item)
        self.lines[item.queue].waits += 1
        self.count += 1

    def _unwait(self, item: Item) -> None:
        self._waiting_like(item).remove(item)
        self.lines[item.queue].waits -= 1
        self.count -= 1

    def _waiting_like(self, item: Item) -> deque[Item]:
        waiting = self.lines[item.queue].waiting
        items = waiting.get(item.demand)
        if items is None:
            items = waiting[item.demand] = deque()
        return items
