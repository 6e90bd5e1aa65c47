"""When running jobs leave a queue, and when the public Tiresias simulator looks at them.

The two differ. A job of g GPUs that has run e seconds has had its share L at g*e >= L, but it is
demoted only at the next event of any kind, and the event set for it comes floor((L - e) / g)
seconds from now: GPU-seconds less seconds, a unit error. The time is worked out anew at every
event, so it depends on when those were. Among the running jobs of one queue and one width the one
that has run longest is first both to cross and to be looked at, so one heap a width answers both.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from shunter.policies.peers.items import Item

__all__ = ["NEVER_S", "Timers"]

NEVER_S = 1 << 62


@dataclass(slots=True)
class Width:
    """The running jobs of one queue and one width.

    `begun` holds (since - executed, ordinal) of each. They leave the queue at `limit`, so after
    `stay_s` seconds of running.
    """

    queue: int
    gpus: int
    limit: int
    stay_s: int
    begun: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Timers:
    """The running jobs of all queues but the last; `limits` in (GPU-)seconds."""

    limits: tuple[int, ...]
    two_d: bool
    widths: list[Width] = field(default_factory=list)
    by_width: dict[tuple[int, int], Width] = field(default_factory=dict)
    crosses_s: int = NEVER_S

    def add(self, item: Item) -> None:
        """Note that a job runs in its queue from now on."""
        queue = item.queue
        if queue == len(self.limits):
            return
        gpus = max(1, item.gpus) if self.two_d else 1
        width = self.by_width.get((queue, gpus))
        if width is None:
            limit = self.limits[queue]
            width = self.by_width[queue, gpus] = Width(queue, gpus, limit, -(-limit // gpus))
            self.widths.append(width)
        begun_s = item.since_s - item.executed_s
        heappush(width.begun, (begun_s, item.ordinal))
        self.crosses_s = min(self.crosses_s, begun_s + width.stay_s)

    def crossed(self, now_s: int, running: dict[int, Item]) -> list[Item]:
        """Return who is to leave a queue now, in no order; they are forgotten here."""
        if now_s < self.crosses_s:
            return []
        found: list[Item] = []
        self.crosses_s = NEVER_S
        for width in self.widths:
            begun, queue = width.begun, width.queue
            while begun:
                begun_s, ordinal = begun[0]
                item = running.get(ordinal)
                if item is not None and _is_it(item, queue, begun_s):
                    crosses_s = begun_s + width.stay_s
                    if crosses_s > now_s:
                        self.crosses_s = min(self.crosses_s, crosses_s)
                        break
                    found.append(item)
                heappop(begun)
        return found

    def next_look(self, now_s: int, running: dict[int, Item], *, each: bool = False) -> int:
        """Return when the simulator looks next, given that it looks now; NEVER_S: never.

        A look at which nobody has crossed does nothing but set the next one; without `each` such
        looks are passed over.
        """
        first_s: list[tuple[int, Width]] = []
        for width in self.widths:
            begun, queue = width.begun, width.queue
            while begun:
                begun_s, ordinal = begun[0]
                item = running.get(ordinal)
                if item is not None and _is_it(item, queue, begun_s):
                    first_s.append((begun_s, width))
                    break
                heappop(begun)
        look_s = now_s
        while True:
            next_s = NEVER_S
            for begun_s, width in first_s:
                wait_s = (width.limit + begun_s - look_s) // width.gpus
                # A timer of no length would stop the simulator's clock for ever; it is none here.
                if wait_s > 0 and look_s + wait_s < next_s:
                    next_s = look_s + wait_s
            if each or next_s >= self.crosses_s or next_s == NEVER_S:
                return next_s
            look_s = next_s


def _is_it(item: Item, queue: int, begun_s: int) -> bool:
    """Say whether a job still runs as it did when it was noted."""
    return item.queue == queue and item.since_s - item.executed_s == begun_s
