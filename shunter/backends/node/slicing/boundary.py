"""Whether the ranks of an attempt stand still at a mini-batch boundary, where they can.

Each rank of a program that uses the training library says `turns` once it runs, and how many they
are. Once all have, asked by the record `turn` in the folder of its attempt to end a turn, each rank
says `standing` at its next boundary (all at the same one), with the number of the order, and goes
no further until the record asks no more. Only the standard library of Python 3.8 or later, as in
supervisor.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Message


class Boundary:
    """What the ranks of an attempt say of the boundaries at which its turns end.

    Attributes:
        can_move: whether they take their GPUs anew after each turn: one rank of one GPU may.
        number: the order that ends the turn; 0: no turn is being ended.
    """

    def __init__(self, gpus: int = 1) -> None:
        self._gpus = gpus
        self.can_move = False
        self.number = 0
        self._due_us = 0
        self._ranks = 0
        self._told: set[int] = set()
        self._standing: set[int] = set()

    @property
    def is_awaited(self) -> bool:
        """Whether the end of a turn waits for the ranks."""
        return bool(self.number)

    @property
    def is_standing(self) -> bool:
        """Whether all ranks stand still at the boundary that was asked for."""
        return self.is_awaited and len(self._standing) >= self._ranks

    def take(self, said: Message) -> None:
        """Note what a rank says of its turns."""
        what, rank = said["what"], said.get("rank") or 0
        if what == "turns":
            self._ranks = said["ranks"] or 1
            self._told.add(rank)
            is_alone = self._ranks == 1 and self._gpus == 1
            self.can_move = is_alone and bool(said["moves"])
        elif what == "standing" and said["turn"] == self.number:
            self._standing.add(rank)
        elif what == "progress" and said["state"] == "finished":
            self._told.clear()  # no boundary comes any more

    def ask(self, number: int, due_us: int) -> bool:
        """Wait for all ranks until an instant; False if one says nothing of boundaries."""
        if len(self._told) < max(1, self._ranks):
            return False
        self._standing.clear()
        self.number, self._due_us = number, due_us
        return True

    def is_reached(self, now_us: int) -> bool:
        """Say whether all ranks stand still, or have been waited for long enough."""
        return self.is_standing or now_us >= self._due_us

    def left_us(self, now_us: int) -> int:
        """Return how long they are waited for yet, in microseconds."""
        return max(0, self._due_us - now_us)

    def end(self) -> None:
        """Wait no more."""
        self.number = 0
