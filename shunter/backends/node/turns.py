"""Attempts of a server that share its GPUs in turns, whether or not a scheduler is there.

Below a root, `slices/SERVER/` holds what those who share the GPUs of a server need:

    lock            flock held by the one supervisor that rotates, whose attempt it names
    rotating        its sign of life, and the first number of its orders
    used            the time each had so far, for the next one that rotates
    JOB.ATTEMPT     a member: what it was given, its weight, the quantum
    JOB.ATTEMPT.answer  the last order about turns that it has carried out, and its GPUs

and the folder of an attempt a record `turn` with the same, and while its turn is being ended the
number of the order that ends it. The job reads it, and may spoil it for itself.

No process is there for this alone: one of the supervisors rotates (rotator.py, by the rule of
rotation.py), and each does what it is told about its own attempt (`Turns`). So turns outlive daemon
and agent as supervisors do, are fenced with them, and end with the last of them. If the one that
rotates dies, the next takes the lock, as it does when that one hangs: everybody stands still, and
then the rule goes on from the times that were had. Times are microseconds of the monotonic clock.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import send
from shunter.backends.node.messages import Command
from shunter.backends.node.ranks import stop_all
from shunter.backends.node.records import folder_of, kill, own_folder
from shunter.backends.node.rotator import (
    LOOK_US,
    RotationLock,
    Rotator,
    Slice,
    Turn,
    drop_member,
    drop_turn,
    first_number,
    members_in,
    put_answer,
    put_member,
    put_turn,
    rotating_in,
    slices_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shunter.backends.node.messages import JobMessage, Key, Order


class Turns:
    """The turns of one attempt, as its supervisor has them.

    While it is not its turn, all processes of an attempt stand still, from before they begin. What
    memory of a GPU they have, they keep. A turn ends at a mini-batch boundary where the program
    knows of turns and comes to one in time, and else at once. Who is to leave, or to end gently,
    has the next turn at once and until it is gone. A part of a gang that is on several servers of
    this node has its turn once all of them have given it, and until the first takes it back.

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
        key = order.job, order.attempt
        self._processes, self._note = processes, note
        slicing = order.slicing
        self.is_sliced = slicing is not None
        self._record: Slice | None = None
        self._places: list[ServerPlace] = []
        self._moves = self._is_in_batch = False
        if slicing is not None:
            homes = slicing.homes or order.placement[:1]
            self._places = [ServerPlace(root, server, home, key) for server, home in homes]
            self._moves = not slicing.is_fixed
            own = slicing.replaced(homes=())
            self._record = Slice(**own, home=self._places[0].home, is_urgent=False)
        self._width = sum(bin(place.home).count("1") for place in self._places)
        self._folder = folder_of(root, *key)
        self._boundary = Boundary(self._width)
        self._is_member = self._is_leaving = self._is_stopped = False

    def join(self) -> None:
        """Take turns from now on."""
        if self._record is None:
            return
        self._is_member = True
        for place in self._places:
            place.join(self._record.replaced(home=place.home))

    def leave(self) -> None:
        """Be on the way out: with the next turn at once, and until all is over."""
        if self._record is None or self._is_leaving:
            return
        self._is_leaving = True
        self._record.is_urgent = True
        if self._boundary.is_awaited:  # it keeps its turn
            self._boundary.end()
            for place in self._places:
                place.number = place.done
            self._show()
        if self._is_stopped:
            self._come_back(self._record)
        with suppress(OSError):
            self.join()

    def end(self) -> None:
        """Be gone: nobody waits for this attempt any more."""
        self._is_member = False
        for place in self._places:
            place.end()

    def obey(self, order: Command) -> None:
        """Do what who rotates orders, once; who is on the way out gives up no turn."""
        mask, number = order.mask or 0, order.number or 0
        place = self._place_on(order.server)
        if place is None or number < place.number:
            return
        if number == place.done:
            self._confirm(place)  # what was written is gone, or never was: the disk was full
            return
        if number == place.number and self._boundary.is_awaited:
            return
        if mask and place.is_outdated(number):
            return
        if self._is_leaving and place.mask and not mask:
            return
        place.number = number
        if self._boundary.is_awaited and not mask and place.mask:
            return  # from the next one that rotates, or of another server
        if not mask and self._is_on and self._awaits_boundary(order.until or number):
            return
        self._take(place, 0 if self._is_stopped else mask)
        self._confirm(place)

    def receive(self, said: JobMessage) -> None:
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
        home, record = order.mask or 0, self._record
        is_possible = self._moves and bin(home).count("1") == self._width
        self._change(
            record.replaced(
                weight=order.weight or 1.0,
                home=home if is_possible and len(self._places) == 1 else record.home,
                pack=order.pack or "",
                timetable=order.timetable,
            )
        )

    def note_change(self) -> None:
        """Note that others come or go."""
        for place in self._places:
            place.note_change()

    def stop(self) -> bool:
        """Stand still until told to go on, without turns; False if it takes none anyhow."""
        if self._record is None or self._is_stopped or self._is_leaving:
            return self._record is not None
        self._is_stopped = True
        self._record.pack = ""  # others have their turns without it
        for place in self._places:
            self._take(place, 0)
            place.leave()
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
            for place in [place for place in self._places if place.number != place.done]:
                self._take(place, 0)
                self._confirm(place)
        for place in self._places:
            place.look(now_us)

    def patience_s(self, otherwise_s: float) -> float:
        """Return how long nothing has to be done, at most so long."""
        if not self._places:
            return otherwise_s
        now_us = time.monotonic_ns() // 1000
        left_us = min(place.left_us(now_us) for place in self._places)
        if self._boundary.is_awaited:
            left_us = min(left_us, self._boundary.left_us(now_us))
        return min(otherwise_s, left_us / 1e6)

    def _come_back(self, record: Slice) -> None:
        """Take turns again; who rotates may not have seen yet that it left them."""
        self._is_stopped = False
        self._note("continued")
        record.joined_us = time.monotonic_ns() // 1000

    @property
    def _is_on(self) -> bool:
        """Whether it is its turn: on all of its servers."""
        return all(place.mask for place in self._places)

    def _place_on(self, server: str | None) -> ServerPlace | None:
        """Return the place that an order is about; older releases name no server."""
        if server is None:
            return self._places[0] if len(self._places) == 1 else None  # whose GPUs is not known
        return next((place for place in self._places if place.server == server), None)

    def _awaits_boundary(self, number: int) -> bool:
        """Ask the job to stand still at its next boundary; False if it cannot be asked."""
        assert self._record is not None
        due_us = time.monotonic_ns() // 1000 + self._record.boundary_most_us
        if not self._boundary.ask(number, due_us):
            return False
        if not self._show():
            self._boundary.end()
        return self._boundary.is_awaited

    def _take(self, place: ServerPlace, mask: int) -> None:
        """Work on these GPUs of a server, or stand still, and note it."""
        if not mask and not place.mask:
            return
        is_at_boundary = self._boundary.is_standing
        was_on = self._is_on
        self._boundary.end()
        if mask == place.mask:
            return
        place.mask = mask
        if was_on:
            stop_all(self._processes)
            self._note("turn_ended")
            self._is_in_batch = not is_at_boundary
            self._fix()
        if self._is_on:
            self._show()  # before it goes on: it looks there for its GPUs
            can_move = self._boundary.can_move
            self._note("turn_started", mask=self._places[0].mask, can_move=can_move)
            for pid in self._processes():
                kill(pid, signal.SIGCONT)

    def _confirm(self, place: ServerPlace) -> None:
        """Say that the last order is carried out, so that others may go on."""
        place.done = place.number
        self._show()
        place.confirm()

    def _show(self) -> bool:
        """Write for the job how the turn stands; False if it cannot be.

        Who rotates does not go by it, since the job can remove it or put anything in its place.
        """
        ends = self._boundary.number
        done = max(place.done if ends else place.number for place in self._places)
        mask = self._places[0].mask if self._is_on else 0
        try:
            put_turn(self._folder, Turn(number=done, mask=mask, ends=ends))
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
            self._change(self._record.replaced(is_fixed=has_to_stay or not self._moves))

    def _change(self, record: Slice) -> None:
        """Take turns in another way from now on."""
        if record == self._record:
            return
        self._record = record
        if len(self._places) == 1:
            self._places[0].home = record.home
        if self._is_member:
            with suppress(OSError):
                self.join()


class ServerPlace:
    """An attempt's place among those that share the GPUs of one server.

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

    def __init__(self, root: str, server: str, home: int, key: Key) -> None:
        self._root, self._key = root, key
        self._slices = slices_of(root, server)
        self.server, self.home = server, home
        self.mask = self.number = self.done = 0
        self._lock = RotationLock(self._slices, key)
        self._rotator: Rotator | None = None
        self._next_us = 0
        self._has_changed = False

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
        answer = Turn(number=self.number, mask=self.mask, ends=0)
        with suppress(OSError):  # a full disk: then the order comes again
            put_answer(self._slices, self._key, answer)
        rotating = rotating_in(self._slices)
        if rotating == self._key:
            self._has_changed = True
        elif rotating is not None:
            self._tell(rotating)

    def note_change(self) -> None:
        """Note that others come or go."""
        self._has_changed = True

    def look(self, now_us: int) -> None:
        """Rotate if nobody else does, and it is time."""
        if now_us < self._next_us and not self._has_changed:
            return
        has_changed, self._has_changed = self._has_changed, False
        if self._rotator is not None and not self._lock.keep(now_us):
            self._lock.release()
            self._rotator = None
        if self._rotator is None:
            with suppress(OSError):
                if self._lock.take(now_us):
                    self._rotator = Rotator(self._root, self._slices, self.server, now_us)
        if self._rotator is not None:
            self._rotator.look(now_us, has_changed=has_changed)
        self._next_us = now_us + LOOK_US if self._rotator is None else self._rotator.next_us

    def left_us(self, now_us: int) -> int:
        """Return for how long there is nothing to do."""
        return 0 if self._has_changed else max(0, self._next_us - now_us)

    def _tell_others(self) -> None:
        """Wake who rotates; nobody knows who that is."""
        self._has_changed = True
        for key in members_in(self._slices):
            if key != self._key:
                self._tell(key)

    def _tell(self, key: Key) -> None:
        send(folder_of(self._root, *key), Command(do="turns"))


class Boundary:
    """Whether the ranks of an attempt stand still at a mini-batch boundary.

    Each rank of a program that uses the training library says `turns` once it runs, and how many
    they are. Once all have, asked by the record `turn` in the folder of its attempt to end a turn,
    each rank says `standing` at its next boundary (all at the same one), with the number of the
    order, and goes no further until the record asks no more.

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

    def take(self, said: JobMessage) -> None:
        """Note what a rank says of its turns."""
        what, rank = said.what, said.rank or 0
        if what == "turns":
            self._ranks = said.ranks or 1
            self._told.add(rank)
            is_alone = self._ranks == 1 and self._gpus == 1
            self.can_move = is_alone and bool(said.moves)
        elif what == "standing" and said.turn == self.number:
            self._standing.add(rank)
        elif what == "progress" and said.state == "finished":
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
