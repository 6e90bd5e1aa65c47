"""The turns of one attempt, as its supervisor has them, and its part in the rotation of a server.

While it is not its turn, all processes of an attempt stand still, from before they begin. What
memory of a GPU they have, they keep. Who is to leave, or to end gently, has the next turn at once
and until it is gone. Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import send
from shunter.backends.node.records import folder_of, hold, kill, own_folder
from shunter.backends.node.slicing.members import (
    drop_member,
    members_in,
    put_member,
    slices_of,
    write,
)
from shunter.backends.node.slicing.rotator import LOOK_US, Rotator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shunter.backends.node.messages.wire import Order, Slice


class Turns:
    """Whose turn it is, as far as one attempt is concerned.

    Args:
        root: the folder of the cluster.
        order: of the attempt.
        processes: all of its processes.
        note: what notes something in its journal.
    """

    def __init__(
        self,
        root: str,
        order: Order,
        processes: Callable[[], Iterable[int]],
        note: Callable[..., None],
    ) -> None:
        self._root, self._key = root, (order["job"], order["attempt"])
        self._processes, self._note = processes, note
        slicing = order.get("slicing")
        self.is_sliced = slicing is not None
        self._record: Slice | None = None
        if slicing is not None:
            (_, home), *_ = order["placement"]
            self._record = {**slicing, "home": home, "is_urgent": False}
        self._slices = slices_of(root, order["placement"][0][0]) if order["placement"] else ""
        self._mask = self._number = 0
        self._is_member = self._is_leaving = self._is_stopped = self._is_told = False
        self._lock: int | None = None
        self._rotator: Rotator | None = None
        self._next_us = 0

    def join(self) -> None:
        """Take turns from now on."""
        if self._record is None:
            return
        own_folder(f"{self._root}/slices")
        put_member(self._slices, self._key, self._record)
        self._is_member = True
        self._tell_others()

    def leave(self) -> None:
        """Be on the way out: with the next turn at once, and until all is over."""
        if self._record is None or self._is_leaving:
            return
        self._is_leaving = True
        self._record["is_urgent"] = True
        if self._is_stopped:
            self._is_stopped = False
            self._note("continued")
        with suppress(OSError):
            self.join()

    def end(self) -> None:
        """Be gone: nobody waits for this attempt any more."""
        if self._record is None:
            return
        drop_member(self._slices, self._key)
        self._is_member = False
        if self._lock is not None:
            os.close(self._lock)
        self._lock = self._rotator = None
        self._tell_others()

    def obey(self, mask: int, number: int) -> None:
        """Do what who rotates orders, once; who is on the way out gives up no turn."""
        if self._record is None or number <= self._number:
            return
        if self._is_leaving and self._mask and not mask:
            return
        self._number = number
        self._take(0 if self._is_stopped else mask)
        self._confirm()

    def told(self) -> None:
        """Note that others come or go."""
        self._is_told = True

    def stop(self) -> bool:
        """Stand still until told to go on, without turns; False if it takes none anyhow."""
        if self._record is None or self._is_stopped or self._is_leaving:
            return self._record is not None
        self._is_stopped = True
        self._take(0)
        drop_member(self._slices, self._key)
        self._is_member = False
        self._note("stopped")
        self._tell_others()
        return True

    def go_on(self) -> bool:
        """Take turns again; False if it takes none anyhow."""
        if self._is_stopped:
            self._is_stopped = False
            self._note("continued")
            self.join()
        return self._record is not None

    def look(self) -> None:
        """Rotate if nobody else does, and it is time."""
        now_us = time.monotonic_ns() // 1000
        if self._record is None or (now_us < self._next_us and not self._is_told):
            return
        is_told, self._is_told = self._is_told, False
        if self._rotator is None:
            with suppress(OSError):
                own_folder(self._slices)
                self._lock = hold(f"{self._slices}/lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._lock is not None:
                self._rotator = Rotator(self._root, self._slices, now_us)
        if self._rotator is not None:
            self._rotator.look(now_us, is_told=is_told)
        self._next_us = now_us + LOOK_US if self._rotator is None else self._rotator.next_us

    def patience_s(self, otherwise_s: float) -> float:
        """Return how long nothing has to be done, at most so long."""
        if self._record is None:
            return otherwise_s
        now_us = time.monotonic_ns() // 1000
        left_s = 0.0 if self._is_told else max(0.0, (self._next_us - now_us) / 1e6)
        return min(otherwise_s, left_s)

    def _take(self, mask: int) -> None:
        """Work on these GPUs, or stand still, and note it."""
        if mask == self._mask:
            return
        had, self._mask = self._mask, mask
        if had:
            before: list[int] = []
            while (found := sorted(self._processes())) != before:  # one may have forked meanwhile
                before = found
                self._signal(found, signal.SIGSTOP)
            self._note("turn_ended")
        if mask:
            self._note("turn_started", mask=mask)
            self._signal(self._processes(), signal.SIGCONT)

    def _confirm(self) -> None:
        with suppress(OSError):  # a full disk: the order is given again
            folder = folder_of(self._root, *self._key)
            write(f"{folder}/turn", {"number": self._number, "mask": self._mask})

    def _signal(self, pids: Iterable[int], number: int) -> None:
        for pid in pids:
            kill(pid, number)

    def _tell_others(self) -> None:
        """Wake who rotates; nobody knows who that is."""
        self._is_told = True
        for key in members_in(self._slices):
            if key != self._key:
                send(folder_of(self._root, *key), {"do": "turns"})
