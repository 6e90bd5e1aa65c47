"""What the memories of all peer policies have in common, and what their policy asks of them."""

from typing import Protocol

from shunter.events import Demand, JobId
from shunter_peers.queueing.items import Item


class PeerMemory(Protocol):
    """Jobs as the played simulator sees them, and the outcome of its last event.

    `started` and `stopped` are the changes of that event, in its order. `due` says that what has
    happened since may change who runs.
    """

    items: dict[JobId, Item]
    started: list[Item]
    stopped: list[Item]
    capacity: int
    due: bool

    @property
    def alarm_s(self) -> int | None:
        """When the next event is due that may change who runs, if nothing comes or ends."""

    def catch_up(self, now_s: int) -> None:
        """Play what was due before an instant and could change nothing."""

    def arrive(self, item: Item) -> None:
        """Let a job wait at the end of the line."""

    def leave(self, item: Item, now_s: int) -> None:
        """Forget a job that has ended; see whether that makes an event due."""

    def fall_back(self, item: Item, now_s: int) -> None:
        """Let a job wait that the memory thought to run."""

    def go_on(self, item: Item, now_s: int) -> None:
        """Let a job run that the memory thought to have stopped."""

    def event(self, now_s: int) -> None:
        """Play one event of the simulator: clocks, moves, pass, next time to look."""

    def waiting(self) -> list[Demand]:
        """Return what waiting jobs ask for, each demand at least once."""
