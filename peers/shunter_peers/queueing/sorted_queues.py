"""dlas-gpu-gittins of the public Tiresias simulator: its queues, each sorted by the Gittins index.

Demotion and its timers are those of dlas-gpu. Before each pass every queue is sorted anew, by index
and then by submission; who ties in both keeps the order of the last event, after which running jobs
stood before waiting ones. So long as no two active jobs were submitted in the same second there is
no such tie, and events at which all fit together need no sorting.
"""

from dataclasses import dataclass, field
from operator import attrgetter

from shunter.events import DERIVED, Demand, JobId
from shunter_peers.queueing.index import Index
from shunter_peers.queueing.items import Item
from shunter_peers.queueing.timers import NEVER_S, Timers

_by_arrival = attrgetter("ordinal")
_by_key = attrgetter("key")
_SUBMIT_BITS = 44
_WAITS = 1  # the last bit of a key: behind those that run


@dataclass(slots=True)
class SortedQueuesMemory:
    """Queues of running and waiting jobs together, in the order of the last sort."""

    timers: Timers = field(metadata=DERIVED)
    index: Index = field(metadata=DERIVED)
    items: dict[JobId, Item] = field(default_factory=dict)
    capacity: int = 0
    wake_s: int | None = None
    due: bool = False
    started: list[Item] = field(default_factory=list, metadata=DERIVED)
    stopped: list[Item] = field(default_factory=list, metadata=DERIVED)
    lines: list[list[Item]] = field(default_factory=list, metadata=DERIVED)
    running: dict[int, Item] = field(default_factory=dict, metadata=DERIVED)
    submitted: dict[int, int] = field(default_factory=dict, metadata=DERIVED)
    twins: int = field(default=0, metadata=DERIVED)
    demanded: int = field(default=0, metadata=DERIVED)

    def __post_init__(self) -> None:
        self.lines = [[] for _ in range(len(self.timers.limits) + 1)]

    @property
    def alarm_s(self) -> int | None:
        """When an event is due that could change who runs."""
        return self.wake_s if len(self.items) > len(self.running) else None

    def arrive(self, item: Item) -> None:
        """Let a job wait, last in its queue until the next sort."""
        self.items[item.job_id] = item
        self._rank(item, item.since_s)
        item.key |= _WAITS
        self.lines[item.queue].append(item)
        self.demanded += item.gpus
        self.twins += self.submitted.get(item.submit_s, 0)
        self.submitted[item.submit_s] = self.submitted.get(item.submit_s, 0) + 1
        self.due = True

    def leave(self, item: Item, now_s: int) -> None:
        """Forget a job. While nobody waits, the event can be played later."""
        del self.items[item.job_id]
        self.lines[item.queue].remove(item)
        self.running.pop(item.ordinal, None)
        item.begun_s = -1
        self.demanded -= item.gpus
        others = self.submitted.pop(item.submit_s) - 1
        if others:
            self.submitted[item.submit_s] = others
            self.twins -= others
        if len(self.items) > len(self.running):
            self.due = True
        self.wake_s = now_s

    def fall_back(self, item: Item, now_s: int) -> None:
        """Let a running job wait."""
        self._stop(item, now_s)
        self.due = True

    def go_on(self, item: Item, now_s: int) -> None:
        """Let a waiting job run."""
        self._start(item, now_s)
        self.due = True

    def catch_up(self, now_s: int) -> None:
        """Play the events before an instant, at which nobody waited."""
        while self.alarm_s is None and self.wake_s is not None and self.wake_s < now_s:
            self._play(self.wake_s)

    def event(self, now_s: int) -> None:
        """Play one event: demotions by arrival, the sort, the pass, the next look."""
        self.started, self.stopped = [], []
        self.due = False
        self._play(now_s)

    def waiting(self) -> list[Demand]:
        """Return what waiting jobs ask for."""
        if len(self.items) == len(self.running):
            return []
        return [item.demand for line in self.lines for item in line if not item.runs]

    def _play(self, now_s: int) -> None:
        demoted = self.timers.crossed(now_s)
        if demoted:
            demoted.sort(key=_by_arrival)
            for item in demoted:
                self.lines[item.queue].remove(item)
                item.queue += 1
                self.lines[item.queue].append(item)
                self.timers.add(item)
        waits = len(self.items) > len(self.running)
        if waits and self.demanded <= self.capacity and not self.twins:
            self._start_all(now_s)
        elif waits or self.twins:
            for item in self.running.values():
                if now_s >= item.changes_s:
                    self._rank(item, now_s)
            # Who was just demoted is last, and so behind the waiting jobs that tie with it.
            for item in demoted:
                item.key |= _WAITS
            for line in self.lines:
                line.sort(key=_by_key)
            for item in demoted:
                item.key ^= _WAITS
            if waits:
                self._pass(now_s)
        next_s = self.timers.next_look(now_s, each=True)
        self.wake_s = None if next_s == NEVER_S else next_s

    def _start_all(self, now_s: int) -> None:
        """Start whoever waits: there is room for all, in whatever order."""
        for line in self.lines:
            self.started += [item for item in line if not item.runs]
        for item in self.started:
            self._start(item, now_s)

    def _pass(self, now_s: int) -> None:
        """Run whoever fits, queue by queue, and put others aside."""
        free = self.capacity
        started, stopped = self.started, self.stopped
        for line in self.lines:
            for item in line:
                gpus = item.gpus
                if gpus <= free:
                    free -= gpus
                    if not item.runs:
                        started.append(item)
                elif item.runs:
                    stopped.append(item)
        for item in stopped:
            self._stop(item, now_s)
        for item in started:
            self._start(item, now_s)

    def _rank(self, item: Item, now_s: int) -> None:
        """Set the key of a job, as running, and when it changes."""
        executed_s = item.executed_s + (now_s - item.since_s if item.runs else 0)
        rank, next_gpu_s = self.index.rank(item.gpus * executed_s)
        item.key = (rank << _SUBMIT_BITS | item.submit_s) << 1
        if next_gpu_s is None or not item.gpus:
            item.changes_s = NEVER_S
        else:
            item.changes_s = now_s - executed_s - -next_gpu_s // item.gpus

    def _start(self, item: Item, now_s: int) -> None:
        item.since_s = now_s
        item.runs = True
        item.begun_s = now_s - item.executed_s
        self.running[item.ordinal] = item
        self._rank(item, now_s)
        self.timers.add(item)

    def _stop(self, item: Item, now_s: int) -> None:
        item.executed_s += now_s - item.since_s
        item.since_s = now_s
        item.runs = False
        item.begun_s = -1
        del self.running[item.ordinal]
        self._rank(item, now_s)
        item.key |= _WAITS
