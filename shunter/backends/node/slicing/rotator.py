"""Who rotates: the supervisor that holds the lock of a server, by the rule of `rotation`.

Nobody goes on before those whose turn is over stand still, or are gone; each supervisor says when
it has carried an order out. One that does not within `boundary_most` and `ANSWER_MOST_US` is stuck:
its GPUs are nobody else's until it does or is gone, and the others take turns on the rest. Packs
are made and parted between two quanta. An order that nobody carries out is given again. GPUs that
are nobody's own any more are left at once. Only the standard library of Python 3.8 or later, as in
supervisor.py.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import probe, send, sweep
from shunter.backends.node.records import count_in, folder_of
from shunter.backends.node.rotation.member import Member
from shunter.backends.node.rotation.rule import Rotation
from shunter.backends.node.rotation.timetable import Timetable
from shunter.backends.node.slicing.members import (
    answer_in,
    drop_member,
    members_in,
    used_in,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeGuard

    from shunter.backends.node.messages.wire import Slice, Turn

AGAIN_US = 1_000_000
LOOK_US = 1_000_000
SWITCH_LOOK_US = 50_000
ANSWER_MOST_US = 5_000_000
STUCK_AGAIN_US = 30_000_000  # more often would fill what the daemon's orders come through


class Rotator:
    """The rotation of a server, and the change of hands that is under way.

    `next_us` is when there is something to do again.
    """

    def __init__(self, root: str, slices: str, server: str, now_us: int) -> None:
        self.next_us = now_us
        self._root, self._slices, self._server = root, slices, server
        self._used = used_in(slices)
        self._rotation = Rotation(1)
        self._set_clock(now_us)
        self._keys: dict[str, tuple[str, int]] = {}
        self._number, self._ordered_us = now_us, now_us  # above all that another has given
        self._masks: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._untils: dict[str, int] = {}
        self._packs: dict[str, str] = {}
        self._turns: dict[str, int] | None = {}
        self._boundary_most_us: dict[str, int] = {}
        self._joined_us: dict[str, int | None] = {}
        self._leaving: dict[str, int] = {}  # and by when they are to stand still
        self._stuck: dict[str, int] = {}  # and when they were asked last
        self._read(now_us)
        for name in self._keys:  # whatever the one before had begun
            self._end_turn(name, now_us)

    def look(self, now_us: int, *, is_told: bool = False) -> None:
        """Do what is due; somebody may have told that others come or go."""
        if not is_told and now_us < self.next_us:
            return
        self._set_clock(now_us)
        self._hand_over(now_us)  # first: GPUs idle meanwhile
        self._read(now_us)
        self._unblock(now_us)
        self._check_numbers(now_us)
        if self._turns is None and self._is_over(now_us):
            self._end_quantum(now_us)
        self._hand_over(now_us)
        if self._turns is None:
            for member in self._rotation.fill(now_us):
                for name in member.names:
                    self._order(name, member.mask)
        self._foresee(now_us)

    def _set_clock(self, now_us: int) -> None:
        """Go by the clock of the day for timetables, which may have been set meanwhile."""
        self._rotation.ahead_us = time.time_ns() // 1000 - now_us

    def _is_over(self, now_us: int) -> bool:
        """Say whether the quantum is, or somebody needs another GPU at once."""
        members, gpus = self._rotation.members.values(), self._rotation.gpus
        if any(member.mask & ~gpus and not member.is_stuck for member in members):
            return True
        if any(True for _ in self._changes_of_packs()) or self._is_called(now_us):
            return True
        ends_us = self._rotation.ends_us
        urgent = [member for member in self._rotation.waiting if member.goes_first]
        is_urgent = any(self._rotation.could_begin(member) for member in urgent)
        return ends_us is not None and (is_urgent or now_us >= ends_us)

    def _is_called(self, now_us: int) -> bool:
        """Say whether the turn of a gang begins or ends, and can."""
        return self._rotation.is_called(now_us) and self._rotation.next_turns(now_us) != {
            name: member.mask for name, member in self._rotation.members.items() if member.mask
        }

    def _foresee(self, now_us: int) -> None:
        ends_us, calls_us = self._rotation.ends_us, self._rotation.calls_us(now_us)
        self.next_us = now_us + (LOOK_US if self._turns is None else SWITCH_LOOK_US)
        if self._turns is None and calls_us is not None:
            self.next_us = min(self.next_us, calls_us)
        if self._turns is None and ends_us is not None:
            self.next_us = min(self.next_us, max(ends_us, now_us + SWITCH_LOOK_US))

    def _read(self, now_us: int) -> None:
        """Let those in that have come, and those out that are gone."""
        records = members_in(self._slices)
        found = {f"{job}.{number}": (job, number) for job, number in records}
        for name, key in list(self._keys.items()):
            if self._is_gone(name):
                drop_member(self._slices, key)
                found.pop(name, None)
            if name not in found:
                self._forget(name, now_us)
        for name, key in found.items():
            record = records[key]
            if name not in self._keys:
                self._join(name, key, record, now_us)
            if name not in self._keys:
                continue
            self._change(self._rotation.job(name), record, now_us)
        self._call_off([name for name in found if name in self._keys], records, now_us)

    def _call_off(
        self, names: Iterable[str], records: Mapping[tuple[str, int], Slice], now_us: int
    ) -> None:
        """Have those stand still that were away, before anybody has their GPUs.

        An order of before may have given it up with that, or may still be on its way to them.
        """
        for name in names:
            joined_us = records[self._keys[name]].get("joined_us")
            if joined_us == self._joined_us.get(name):
                continue
            self._joined_us[name] = joined_us
            self._end_quantum(now_us)  # it may be packed with nobody any more
            self._end_turn(name, now_us)

    def _forget(self, name: str, now_us: int) -> None:
        """Know nothing of a job any more; its record may be there again, and stays."""
        del self._keys[name]
        self._leave(name, now_us)
        for each in (
            self._leaving,
            self._stuck,
            self._boundary_most_us,
            self._masks,
            self._numbers,
        ):
            each.pop(name, None)
        for known in (self._untils, self._packs, self._joined_us):
            known.pop(name, None)

    def _leave(self, name: str, now_us: int) -> None:
        """Take a job out; who was packed with it has its turn, and its next one.

        It runs on, for nobody has told it to stand still.
        """
        heir = self._rotation.leave(name, now_us)
        if heir is not None and self._turns is not None and name in self._turns:
            self._turns[heir] = self._turns.pop(name)

    def _change(self, member: Member, record: Slice, now_us: int) -> None:
        """Take over what is said of a member by now."""
        self._packs[member.name] = record["pack"] or ""
        self._boundary_most_us[member.name] = record["boundary_most_us"]
        member.is_fixed, member.is_urgent = record["is_fixed"], record["is_urgent"]
        timetable = record.get("timetable")
        member.timetable = Timetable(*timetable) if _is_timetable(timetable) else None
        if member.weight != record["weight"]:
            self._rotation.weigh(member.name, record["weight"], now_us)
        if member.home != record["home"]:
            self._rotation.rehome(member.name, record["home"])

    def _join(self, name: str, key: tuple[str, int], record: Slice, now_us: int) -> None:
        self._keys[name] = key
        if self._is_gone(name):
            drop_member(self._slices, self._keys.pop(name))
            return
        if not self._rotation.members:
            self._rotation = Rotation(record["quantum_us"], record["wait_most_us"])
            self._set_clock(now_us)
        self._rotation.quantum_us = record["quantum_us"]
        member = Member(name, record["home"], record["weight"], is_fixed=record["is_fixed"])
        self._rotation.join(member, now_us)
        member.used_us = self._used.pop(name, member.used_us)

    def _is_gone(self, name: str) -> bool:
        """Say whether nothing of an attempt runs that could have a GPU."""
        folder = folder_of(self._root, *self._keys[name])
        state = probe(folder)["state"]
        return state == "ended" or (state in ("lost", "absent") and not sweep(folder))

    def _end_quantum(self, now_us: int) -> None:
        """Choose who has the next turn; tell all others to stand still."""
        for name, onto in list(self._changes_of_packs()):
            if onto:
                self._rotation.pack(name, onto, now_us)
            else:
                self._rotation.part(name, now_us)
        self._choose(now_us)

    def _choose(self, now_us: int) -> None:
        self._turns = self._rotation.next_turns(now_us)
        wanted = self._of_jobs(self._turns)
        for name, mask in list(self._masks.items()):
            if mask and wanted.get(name, 0) != mask:
                self._end_turn(name, now_us)

    def _end_turn(self, name: str, now_us: int) -> None:
        most_us = self._boundary_most_us.get(name, 0)
        self._leaving[name] = now_us + most_us + ANSWER_MOST_US
        self._order(name, 0, self._until_us(name, now_us))

    def _until_us(self, name: str, now_us: int) -> int:
        """Return when the turn of a gang was to end by its timetable; 0: by none."""
        has = self._rotation.has(name)
        timetable = self._rotation.job(name).timetable if has else None
        clock_us = now_us + self._rotation.ahead_us
        ends = timetable is not None and not timetable.covers(clock_us)
        return timetable.ended_us(clock_us) if timetable is not None and ends else 0

    def _changes_of_packs(self) -> Iterator[tuple[str, str]]:
        """Yield who is to be packed with a member, and who with nobody any more."""
        first: dict[str, str] = {}
        for member in self._rotation.members.values():
            if member.is_stuck:
                continue  # it stays as it is
            pack = self._packs.get(member.name, "")
            for each in member.packed:
                if not pack or self._packs.get(each.name, "") != pack:
                    yield each.name, ""
            if pack and pack in first:
                yield member.name, first[pack]
            elif pack:
                first[pack] = member.name

    def _of_jobs(self, turns: dict[str, int]) -> dict[str, int]:
        """Return the masks of all jobs that are to have some turns, given by member."""
        members = self._rotation.members
        return {
            each: mask
            for name, mask in turns.items()
            if name in members and not members[name].is_stuck
            for each in members[name].names
        }

    def _hand_over(self, now_us: int) -> None:
        """Change hands once all stand still that are to; who is overdue keeps its GPUs."""
        if self._turns is None:
            return
        for name in [name for name in self._leaving if self._is_done(name)]:
            del self._leaving[name]
        overdue = [name for name, due_us in self._leaving.items() if now_us >= due_us]
        for name in overdue:
            del self._leaving[name]
            self._stuck[name] = now_us
            self._rotation.block(name, self._answer(name)["mask"], now_us)
        if overdue:
            self._choose(now_us)
        if not self._leaving and self._turns is not None:
            self._change_hands(self._turns, now_us)

    def _unblock(self, now_us: int) -> None:
        """Let those take turns again that stand still after all."""
        for name in [name for name in self._stuck if self._is_done(name)]:
            del self._stuck[name]
        for member in self._rotation.members.values():
            if member.is_stuck and not any(name in self._stuck for name in member.names):
                self._rotation.unblock(member, now_us)

    def _change_hands(self, turns: dict[str, int], now_us: int) -> None:
        self._turns = None
        self._rotation.switch(turns, now_us)
        for name, mask in self._of_jobs(turns).items():
            if mask and mask != self._masks.get(name, 0):
                self._order(name, mask)
        members = self._rotation.members.values()
        used = {name: each.used_us for each in members for name in each.names}
        with suppress(OSError):  # a full disk: the next one that rotates begins anew
            write(f"{self._slices}/used", used)

    def _order(self, name: str, mask: int, until_us: int = 0) -> None:
        self._number += 1
        self._masks[name], self._numbers[name] = mask, self._number
        self._untils[name] = until_us
        self._send(name)

    def _send(self, name: str) -> None:
        term = count_in(f"{self._root}/term", "term")
        said = {"do": "turn", "term": term, "mask": self._masks[name], "server": self._server}
        if self._untils[name]:
            said["until"] = self._untils[name]
        folder = folder_of(self._root, *self._keys[name])
        send(folder, {**said, "number": self._numbers[name]})

    def _is_done(self, name: str) -> bool:
        return self._answer(name)["number"] >= self._numbers[name]

    def _answer(self, name: str) -> Turn:
        key = self._keys[name]
        return answer_in(self._slices, key, folder_of(self._root, *key))

    def _check_numbers(self, now_us: int) -> None:
        """Give orders again that nobody has carried out."""
        if now_us < self._ordered_us + AGAIN_US:
            return
        self._ordered_us = now_us
        for name in self._numbers:
            if name in self._stuck and now_us < self._stuck[name] + STUCK_AGAIN_US:
                continue
            if not self._is_done(name):
                self._send(name)
            if name in self._stuck:
                self._stuck[name] = now_us


def _is_timetable(value: list[int] | None) -> TypeGuard[list[int]]:
    """Say whether a record names period, first instant and length of turns."""
    return value is not None and len(value) == 3 and value[0] > 0
