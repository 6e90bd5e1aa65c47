"""When running jobs leave a queue, and when the public Tiresias simulator looks at them.

The two differ. A job of g GPUs that has run e seconds has had its share L at g*e >= L, but it is
demoted only at the next event of any kind, and the event set for it comes floor((L - e) / g)
seconds from now: GPU-seconds less seconds, a unit error. The time is worked out anew at every
event, so it depends on when those were. Among the running jobs of one queue and one width the one
that has run longest is first both to cross and to be looked at, so one heap a width answers both.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from shunter_peers.queueing.items import Item

NEVER_S = 1 << 62


@dataclass(slots=True)
class Width:
    """The running jobs of one queue and one width.

    `begun` holds when they would have begun to run, had they never stopped; entries that are not
    their job's any more are void. They leave the queue at `limit`, `stay_s` after that.
    """

    gpus: int
    limit: int
    stay_s: int
    begun: list[tuple[int, int, Item]] = field(default_factory=list)


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
            width = self.by_width[queue, gpus] = Width(gpus, limit, -(-limit // gpus))
            self.widths.append(width)
        begun_s = item.begun_s
        heappush(width.begun, (begun_s, item.ordinal, item))
        if begun_s + width.stay_s < self.crosses_s:
            self.crosses_s = begun_s + width.stay_s

    def crossed(self, now_s: int) -> list[Item]:
        """Return who is to leave a queue now, in no order; they are forgotten here."""
        if now_s < self.crosses_s:
            return []
        found: list[Item] = []
        self.crosses_s = NEVER_S
        for width in self.widths:
            begun, stay_s = width.begun, width.stay_s
            while begun:
                begun_s, _, item = begun[0]
                if item.begun_s == begun_s:
                    if begun_s + stay_s > now_s:
                        self.crosses_s = min(self.crosses_s, begun_s + stay_s)
                        break
                    found.append(item)
                heappop(begun)
        return found

    def next_look(self, now_s: int, *, each: bool = False) -> int:
        """Return when the simulator looks next, given that it looks now; NEVER_S: never.

        A look at which nobody has crossed does nothing but set the next one; without `each` such
        looks are passed over.
        """
        firsts: list[tuple[int, int]] = []
        for width in self.widths:
            begun = width.begun
            while begun and begun[0][2].begun_s != begun[0][0]:
                heappop(begun)
            if begun:
                firsts.append((width.limit + begun[0][0], width.gpus))
        look_s = now_s
        while True:
            next_s = NEVER_S
            for sum_s, gpus in firsts:
                at_s = look_s + (sum_s - look_s) // gpus
                # A timer of no length would stop the simulator's clock for ever; it is none here.
                if look_s < at_s < next_s:
                    next_s = at_s
            if each or next_s >= self.crosses_s or next_s == NEVER_S:
                return next_s
            look_s = next_s
