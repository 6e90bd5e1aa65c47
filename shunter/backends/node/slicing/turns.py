"""The turns of one attempt, as its supervisor has them.

While it is not its turn, all processes of an attempt stand still, from before they begin. What
memory of a GPU they have, they keep. A turn ends at a mini-batch boundary (`boundary.py`) where the
program knows of turns and comes to one in time, and else at once. Who is to leave, or to end
gently, has the next turn at once and until it is gone. A part of a gang that is on several servers
of this node has its turn once all of them have given it, and until the first takes it back. Only
the standard library of Python 3.8 or later, as in supervisor.py.
"""

# int.bit_count is of Python 3.10.
# ruff: noqa: FURB161

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.records import folder_of, kill
from shunter.backends.node.slicing.boundary import Boundary
from shunter.backends.node.slicing.members import drop_turn, put_turn
from shunter.backends.node.slicing.seat import Seat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shunter.backends.node.messages.wire import Command, Message, Order, Slice


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
        key = order["job"], order["attempt"]
        self._processes, self._note = processes, note
        slicing = order.get("slicing")
        self.is_sliced = slicing is not None
        self._record: Slice | None = None
        self._seats: list[Seat] = []
        self._moves = self._is_in_batch = False
        if slicing is not None:
            homes = slicing.get("homes") or [order["placement"][0]]
            self._seats = [Seat(root, server, home, key) for server, home in homes]
            self._moves = not slicing["is_fixed"]
            self._record = {
                "weight": slicing["weight"],
                "is_fixed": slicing["is_fixed"],
                "quantum_us": slicing["quantum_us"],
                "wait_most_us": slicing["wait_most_us"],
                "boundary_most_us": slicing["boundary_most_us"],
                "home": self._seats[0].home,
                "is_urgent": False,
                "pack": "",
                "timetable": slicing.get("timetable"),
                "joined_us": None,
            }
        self._width = sum(bin(seat.home).count("1") for seat in self._seats)
        self._folder = folder_of(root, *key)
        self._boundary = Boundary(self._width)
        self._is_member = self._is_leaving = self._is_stopped = False

    def join(self) -> None:
        """Take turns from now on."""
        if self._record is None:
            return
        self._is_member = True
        for seat in self._seats:
            seat.join({**self._record, "home": seat.home})

    def leave(self) -> None:
        """Be on the way out: with the next turn at once, and until all is over."""
        if self._record is None or self._is_leaving:
            return
        self._is_leaving = True
        self._record["is_urgent"] = True
        if self._boundary.is_awaited:  # it keeps its turn
            self._boundary.end()
            for seat in self._seats:
                seat.number = seat.done
            self._show()
        if self._is_stopped:
            self._come_back(self._record)
        with suppress(OSError):
            self.join()

    def end(self) -> None:
        """Be gone: nobody waits for this attempt any more."""
        self._is_member = False
        for seat in self._seats:
            seat.end()

    def obey(self, order: Command) -> None:
        """Do what who rotates orders, once; who is on the way out gives up no turn."""
        mask, number, seat = order["mask"] or 0, order["number"] or 0, self._seat(order["server"])
        if seat is None or number < seat.number:
            return
        if number == seat.done:
            self._confirm(seat)  # what was written is gone, or never was: the disk was full
            return
        if number == seat.number and self._boundary.is_awaited:
            return
        if mask and seat.is_outdated(number):
            return
        if self._is_leaving and seat.mask and not mask:
            return
        seat.number = number
        if self._boundary.is_awaited and not mask and seat.mask:
            return  # from the next one that rotates, or of another server
        if not mask and self._is_on and self._awaits_boundary(order["until"] or number):
            return
        self._take(seat, 0 if self._is_stopped else mask)
        self._confirm(seat)

    def receive(self, said: Message) -> None:
        """Take in what the job says of its turns."""
        if self._record is None:
            return
        self._boundary.take(said)
        self._moves = self._moves or self._boundary.can_move
        self._fix()

    def reslice(self, order: Command) -> None:
        """Take turns in another way, on other GPUs only if the job can move."""
        if self._record is None:
            return
        home, record = order["mask"] or 0, self._record
        is_possible = self._moves and bin(home).count("1") == self._width
        self._change(
            {
                **record,
                "weight": order["weight"] or 1.0,
                "home": home if is_possible and len(self._seats) == 1 else record["home"],
                "pack": order["pack"] or "",
                "timetable": order["timetable"],
            }
        )

    def told(self) -> None:
        """Note that others come or go."""
        for seat in self._seats:
            seat.told()

    def stop(self) -> bool:
        """Stand still until told to go on, without turns; False if it takes none anyhow."""
        if self._record is None or self._is_stopped or self._is_leaving:
            return self._record is not None
        self._is_stopped = True
        self._record["pack"] = ""  # others have their turns without it
        for seat in self._seats:
            self._take(seat, 0)
            seat.leave()
        self._is_member = False
        self._note("stopped")
        return True

    def go_on(self) -> bool:
        """Take turns again; False if it takes none anyhow."""
        if self._record is not None and self._is_stopped:
            self._come_back(self._record)
            self.join()
        return self._record is not None

    def look(self) -> None:
        """Rotate if nobody else does, and it is time."""
        now_us = time.monotonic_ns() // 1000
        if self._boundary.is_awaited and self._boundary.is_reached(now_us):
            for seat in [seat for seat in self._seats if seat.number != seat.done]:
                self._take(seat, 0)
                self._confirm(seat)
        for seat in self._seats:
            seat.look(now_us)

    def patience_s(self, otherwise_s: float) -> float:
        """Return how long nothing has to be done, at most so long."""
        if not self._seats:
            return otherwise_s
        now_us = time.monotonic_ns() // 1000
        left_us = min(seat.left_us(now_us) for seat in self._seats)
        if self._boundary.is_awaited:
            left_us = min(left_us, self._boundary.left_us(now_us))
        return min(otherwise_s, left_us / 1e6)

    def _come_back(self, record: Slice) -> None:
        """Take turns again; who rotates may not have seen yet that it left them."""
        self._is_stopped = False
        self._note("continued")
        record["joined_us"] = time.monotonic_ns() // 1000

    @property
    def _is_on(self) -> bool:
        """Whether it is its turn: on all of its servers."""
        return all(seat.mask for seat in self._seats)

    def _seat(self, server: str | None) -> Seat | None:
        """Return the seat that an order is about; older releases name no server."""
        if server is None:
            return self._seats[0] if len(self._seats) == 1 else None  # whose GPUs is not known
        return next((seat for seat in self._seats if seat.server == server), None)

    def _awaits_boundary(self, number: int) -> bool:
        """Ask the job to stand still at its next boundary; False if it cannot be asked."""
        assert self._record is not None
        due_us = time.monotonic_ns() // 1000 + self._record["boundary_most_us"]
        if not self._boundary.ask(number, due_us):
            return False
        if not self._show():
            self._boundary.end()
        return self._boundary.is_awaited

    def _take(self, seat: Seat, mask: int) -> None:
        """Work on these GPUs of a server, or stand still, and note it."""
        if not mask and not seat.mask:
            return
        is_at_boundary = self._boundary.is_standing
        was_on = self._is_on
        self._boundary.end()
        if mask == seat.mask:
            return
        seat.mask = mask
        if was_on:
            before: list[int] = []
            while (found := sorted(self._processes())) != before:  # one may have forked meanwhile
                before = found
                self._signal(found, signal.SIGSTOP)
            self._note("turn_ended")
            self._is_in_batch = not is_at_boundary
            self._fix()
        if self._is_on:
            self._show()  # before it goes on: it looks there for its GPUs
            can_move = self._boundary.can_move
            self._note("turn_started", mask=self._seats[0].mask, can_move=can_move)
            self._signal(self._processes(), signal.SIGCONT)

    def _confirm(self, seat: Seat) -> None:
        """Say that the last order is carried out, so that others may go on."""
        seat.done = seat.number
        self._show()
        seat.confirm()

    def _show(self) -> bool:
        """Write for the job how the turn stands; False if it cannot be.

        Who rotates does not go by it, since the job can remove it or put anything in its place.
        """
        ends = self._boundary.number
        done = max(seat.done if ends else seat.number for seat in self._seats)
        mask = self._seats[0].mask if self._is_on else 0
        try:
            put_turn(self._folder, {"number": done, "mask": mask, "ends": ends})
        except OSError:  # a full disk; what is there would ask a job to stand still for ever
            drop_turn(self._folder)
            return False
        return True

    def _fix(self) -> None:
        """Let who moves work on any GPUs, unless it stands within a mini-batch.

        It would end that where it was, on a GPU that somebody else has by then.
        """
        if self._record is not None:
            has_to_stay = self._is_in_batch and self._boundary.can_move
            self._change({**self._record, "is_fixed": has_to_stay or not self._moves})

    def _change(self, record: Slice) -> None:
        """Take turns in another way from now on."""
        if record == self._record:
            return
        self._record = record
        if len(self._seats) == 1:
            self._seats[0].home = record["home"]
        if self._is_member:
            with suppress(OSError):
                self.join()

    def _signal(self, pids: Iterable[int], number: int) -> None:
        for pid in pids:
            kill(pid, number)
