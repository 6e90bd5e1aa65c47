"""sjf, shortest and shortest-gpu of the public Tiresias simulator: one list, sorted at every event.

All jobs stand in one list that keeps its order from event to event: new ones are appended, the list
is sorted stably by what is left, and whoever fits runs, from the first on. Its `sjf` sorts by GPUs.

While all fit together nothing is sorted here. What is left shrinks linearly, so of two jobs that
tie at a later event the one that shrinks more slowly has been ahead until then: that pace is the
second part of the key. Two that tie at one pace have tied all along, and are in the order of the
last sort.
"""

from dataclasses import dataclass, field
from operator import attrgetter

from shunter.events import DERIVED, Demand, JobId
from shunter_peers.queueing.items import Item

_by_key = attrgetter("key")
_PACE_BITS = 24
_LAST_PACE = (1 << _PACE_BITS) - 1


@dataclass(slots=True)
class ShortestMemory:
    """The list, sorted by GPUs (`by_gpus`), by time left (`by_length`), or by both."""

    by_gpus: bool = field(metadata=DERIVED)
    by_length: bool = field(metadata=DERIVED)
    items: dict[JobId, Item] = field(default_factory=dict)
    capacity: int = 0
    due: bool = False
    started: list[Item] = field(default_factory=list, metadata=DERIVED)
    stopped: list[Item] = field(default_factory=list, metadata=DERIVED)
    line: list[Item] = field(default_factory=list, metadata=DERIVED)
    fresh: list[Item] = field(default_factory=list, metadata=DERIVED)
    demanded: int = field(default=0, metadata=DERIVED)
    count: int = field(default=0, metadata=DERIVED)
    alarm_s: int | None = field(default=None, metadata=DERIVED)

    def arrive(self, item: Item) -> None:
        """Let a job wait, last in the list."""
        self.items[item.job_id] = item
        item.key = self._key(item)
        if self.by_length:
            # Behind all that tie, at its first sort.
            item.key |= _LAST_PACE
            self.fresh.append(item)
        self.line.append(item)
        self.demanded += item.gpus
        self.count += 1
        self.due = True

    def leave(self, item: Item, now_s: int) -> None:
        """Forget a job."""
        del self.items[item.job_id]
        self.line.remove(item)
        self.demanded -= item.gpus
        self.count -= not item.runs
        if self.count:
            self.due = True

    def fall_back(self, item: Item, now_s: int) -> None:
        """Let a running job wait."""
        self._stop(item, now_s)
        self.due = True

    def go_on(self, item: Item, now_s: int) -> None:
        """Let a waiting job run."""
        self._start(item, now_s)
        self.due = True

    def catch_up(self, now_s: int) -> None:
        """Nothing is ever due between arrivals and ends."""

    def event(self, now_s: int) -> None:
        """Play one event: the clocks, the sort, the pass."""
        self.started, self.stopped = [], []
        self.due = False
        if self.demanded <= self.capacity:
            if self.count:
                self._start_all(now_s)
        else:
            if self.by_length:
                self._clock(now_s)
            self.line.sort(key=_by_key)
            for item in self.fresh:
                item.key &= ~_LAST_PACE
            self._pass(now_s)
        self.fresh.clear()

    def waiting(self) -> list[Demand]:
        """Return what waiting jobs ask for."""
        return [item.demand for item in self.line if not item.runs] if self.count else []

    def _clock(self, now_s: int) -> None:
        by_gpus = self.by_gpus
        for item in self.line:
            if item.runs:
                left_s = item.changes_s - now_s
                if by_gpus:
                    gpus = item.gpus
                    item.key = left_s * gpus << _PACE_BITS | gpus
                else:
                    item.key = left_s << _PACE_BITS | 1

    def _start_all(self, now_s: int) -> None:
        """Start whoever waits; most have just come, and stand last."""
        for item in reversed(self.line):
            if not item.runs:
                self.started.append(item)
                if len(self.started) == self.count:
                    break
        self.started.reverse()
        for item in self.started:
            self._start(item, now_s)

    def _pass(self, now_s: int) -> None:
        free, started, stopped = self.capacity, self.started, self.stopped
        for item in self.line:
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

    def _key(self, item: Item) -> int:
        """Return the key of a waiting job, whose pace is 0."""
        if not self.by_length:
            return item.gpus
        return item.length_s * (item.gpus if self.by_gpus else 1) << _PACE_BITS

    def _start(self, item: Item, now_s: int) -> None:
        item.since_s = now_s
        item.changes_s = now_s + item.length_s
        item.runs = True
        self.count -= 1

    def _stop(self, item: Item, now_s: int) -> None:
        item.length_s -= now_s - item.since_s
        item.since_s = now_s
        item.key = self._key(item)
        item.runs = False
        self.count += 1
