"""Who rotates: the supervisor that holds the lock of a server, by the rule of rotation.py.

Nobody goes on before those whose turn is over stand still, or are gone. An order that nobody
carries out is given again. Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import probe, send, sweep
from shunter.backends.node.records import count_in, folder_of
from shunter.backends.node.rotation import Member, Rotation
from shunter.backends.node.slicing.members import (
    drop_member,
    members_in,
    turn_in,
    used_in,
    write,
)

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Slice

AGAIN_US = 1_000_000
LOOK_US = 1_000_000
SWITCH_LOOK_US = 2_000
BEFORE_ALL = -1e15


class Rotator:
    """The rotation of a server, and the change of hands that is under way.

    `next_us` is when there is something to do again.
    """

    def __init__(self, root: str, slices: str, now_us: int) -> None:
        self.next_us = now_us
        self._root, self._slices = root, slices
        self._used = used_in(slices)
        self._rotation = Rotation(1)
        self._keys: dict[str, tuple[str, int]] = {}
        self._urgent: set[str] = set()
        self._number, self._ordered_us = now_us, now_us  # above all that another has given
        self._masks: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._turns: dict[str, int] | None = {}
        self._leaving: set[str] = set()
        self._read(now_us)
        for name in self._keys:  # whatever the one before had begun
            self._order(name, 0)
            self._leaving.add(name)

    def look(self, now_us: int, *, is_told: bool = False) -> None:
        """Do what is due; somebody may have told that others come or go."""
        if not is_told and now_us < self.next_us:
            return
        self._read(now_us)
        self._check_numbers(now_us)
        if self._turns is None:
            ends_us = self._rotation.ends_us
            is_urgent = any(not self._rotation.members[name].mask for name in self._urgent)
            if ends_us is not None and (is_urgent or now_us >= ends_us):
                self._end_quantum(now_us)
        if self._turns is not None and self._stand_still():
            self._change_hands(self._turns, now_us)
        if self._turns is None:
            for member in self._rotation.fill(now_us):
                self._order(member.name, member.mask)
        self._foresee(now_us)

    def _foresee(self, now_us: int) -> None:
        ends_us = self._rotation.ends_us
        self.next_us = now_us + (LOOK_US if self._turns is None else SWITCH_LOOK_US)
        if self._turns is None and ends_us is not None:
            self.next_us = min(self.next_us, max(ends_us, now_us + SWITCH_LOOK_US))

    def _read(self, now_us: int) -> None:
        """Let those in that have come, and those out that are gone."""
        records = members_in(self._slices)
        found = {f"{job}.{number}": (job, number) for job, number in records}
        for name in [name for name in self._keys if name not in found or self._is_gone(name)]:
            drop_member(self._slices, self._keys.pop(name))
            self._rotation.leave(name, now_us)
            self._leaving.discard(name)
            self._urgent.discard(name)
            for each in (self._masks, self._numbers):
                each.pop(name, None)
            found.pop(name, None)
        for name, key in found.items():
            record = records[key]
            if name not in self._keys:
                self._join(name, key, record, now_us)
            member = self._rotation.members.get(name)
            if member is not None and record["is_urgent"] and name not in self._urgent:
                self._urgent.add(name)
                member.used_us = BEFORE_ALL

    def _join(self, name: str, key: tuple[str, int], record: Slice, now_us: int) -> None:
        self._keys[name] = key
        if self._is_gone(name):
            drop_member(self._slices, self._keys.pop(name))
            return
        if not self._rotation.members:
            self._rotation = Rotation(record["quantum_us"], record["wait_most_us"])
        self._rotation.quantum_us = record["quantum_us"]
        member = Member(name, record["home"], record["weight"], is_fixed=record["is_fixed"])
        self._rotation.join(member, now_us)
        others = self._rotation.members.values()
        known = [each.used_us for each in others if each.name not in {name, *self._urgent}]
        member.used_us = self._used.pop(name, min(known, default=0.0))

    def _is_gone(self, name: str) -> bool:
        """Say whether nothing of an attempt runs that could have a GPU."""
        folder = folder_of(self._root, *self._keys[name])
        state = probe(folder)["state"]
        return state == "ended" or (state in ("lost", "absent") and not sweep(folder))

    def _end_quantum(self, now_us: int) -> None:
        """Choose who has the next turn; tell all others to stand still."""
        self._turns = self._rotation.next_turns(now_us)
        for name, member in self._rotation.members.items():
            if member.mask and self._turns.get(name, 0) != member.mask:
                self._leaving.add(name)
                self._order(name, 0)

    def _stand_still(self) -> bool:
        self._leaving = {name for name in self._leaving if not self._is_done(name)}
        return not self._leaving

    def _change_hands(self, turns: dict[str, int], now_us: int) -> None:
        before = {name: each.mask for name, each in self._rotation.members.items()}
        self._turns = None
        self._rotation.switch(turns, now_us)
        for name, mask in turns.items():
            if name in before and mask and mask != before[name]:
                self._order(name, mask)
        used = {name: each.used_us for name, each in self._rotation.members.items()}
        with suppress(OSError):  # a full disk: the next one that rotates begins anew
            write(f"{self._slices}/used", used)

    def _order(self, name: str, mask: int) -> None:
        self._number += 1
        self._masks[name], self._numbers[name] = mask, self._number
        self._send(name)

    def _send(self, name: str) -> None:
        term = count_in(f"{self._root}/term", "term")
        said = {"do": "turn", "term": term, "mask": self._masks[name]}
        folder = folder_of(self._root, *self._keys[name])
        send(folder, {**said, "number": self._numbers[name]})

    def _is_done(self, name: str) -> bool:
        folder = folder_of(self._root, *self._keys[name])
        return turn_in(folder)["number"] >= self._numbers[name]

    def _check_numbers(self, now_us: int) -> None:
        """Give orders again that nobody has carried out."""
        if now_us < self._ordered_us + AGAIN_US:
            return
        self._ordered_us = now_us
        for name in self._numbers:
            if not self._is_done(name):
                self._send(name)
