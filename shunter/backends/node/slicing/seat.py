"""An attempt's place among those that share the GPUs of one server, and its part in their rotation.

Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import send
from shunter.backends.node.records import folder_of, own_folder
from shunter.backends.node.slicing.lock import RotationLock, first_number
from shunter.backends.node.slicing.members import (
    drop_member,
    members_in,
    put_answer,
    put_member,
    rotating_in,
    slices_of,
)
from shunter.backends.node.slicing.rotator import LOOK_US, Rotator

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Slice, Turn


class Seat:
    """What an attempt has of one server, and was told there.

    Args:
        root: the folder of the cluster.
        server: the name of the server.
        home: the mask of its own GPUs there.
        key: job and number of the attempt.

    Attributes:
        mask: its GPUs there in its turn; 0: it has none.
        number: the last order of who rotates there.
        done: the last one that was carried out.
    """

    def __init__(self, root: str, server: str, home: int, key: tuple[str, int]) -> None:
        self._root, self._key = root, key
        self._slices = slices_of(root, server)
        self.server, self.home = server, home
        self.mask = self.number = self.done = 0
        self._lock = RotationLock(self._slices, key)
        self._rotator: Rotator | None = None
        self._next_us = 0
        self._is_told = False

    def join(self, record: Slice) -> None:
        """Take turns from now on, or in another way.

        Raises:
            OSError: the disk is full.
        """
        own_folder(f"{self._root}/slices")
        put_member(self._slices, self._key, record)
        self._tell_others()

    def leave(self) -> None:
        """Take no turns any more, and rotate on for the others."""
        drop_member(self._slices, self._key)
        self._tell_others()

    def end(self) -> None:
        """Be gone: nobody waits for this attempt any more."""
        drop_member(self._slices, self._key)
        self._lock.release()
        self._rotator = None
        self._tell_others()

    def is_outdated(self, number: int) -> bool:
        """Say whether an order is of one that rotated before; all may be others'."""
        return number < first_number(self._slices)

    def confirm(self) -> None:
        """Say that the last order is carried out, so that others may go on."""
        self.done = self.number
        answer: Turn = {"number": self.number, "mask": self.mask, "ends": 0}
        with suppress(OSError):  # a full disk: then the order comes again
            put_answer(self._slices, self._key, answer)
        rotating = rotating_in(self._slices)
        if rotating == self._key:
            self._is_told = True
        elif rotating is not None:
            self._tell(rotating)

    def told(self) -> None:
        """Note that others come or go."""
        self._is_told = True

    def look(self, now_us: int) -> None:
        """Rotate if nobody else does, and it is time."""
        if now_us < self._next_us and not self._is_told:
            return
        is_told, self._is_told = self._is_told, False
        if self._rotator is not None and not self._lock.keep(now_us):
            self._lock.release()
            self._rotator = None
        if self._rotator is None:
            with suppress(OSError):
                if self._lock.take(now_us):
                    self._rotator = Rotator(self._root, self._slices, self.server, now_us)
        if self._rotator is not None:
            self._rotator.look(now_us, is_told=is_told)
        self._next_us = now_us + LOOK_US if self._rotator is None else self._rotator.next_us

    def left_us(self, now_us: int) -> int:
        """Return for how long there is nothing to do."""
        return 0 if self._is_told else max(0, self._next_us - now_us)

    def _tell_others(self) -> None:
        """Wake who rotates; nobody knows who that is."""
        self._is_told = True
        for key in members_in(self._slices):
            if key != self._key:
                self._tell(key)

    def _tell(self, key: tuple[str, int]) -> None:
        send(folder_of(self._root, *key), {"do": "turns"})
