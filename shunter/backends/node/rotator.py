"""Who rotates: the supervisor that holds the lock of a server, by the rule of rotation.py.

Nobody goes on before those whose turn is over have stopped or are gone. A supervisor that does not
carry out an order within `boundary_most` and `ANSWER_MOST_US` is stuck: its GPUs stay its own until
it does, and the others take turns on the rest. Orders are repeated; packs change between quanta.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import NO_END, probe, send, sweep
from shunter.backends.node.messages import (
    COUNT,
    GPU_MASK,
    PACK,
    AttemptTurns,
    Command,
    a_job,
    number_of,
)
from shunter.backends.node.records import (
    count_in,
    folder_of,
    get,
    hold,
    is_at,
    open_regular,
    own_folder,
    put_unsynced,
)
from shunter.backends.node.rotation import Member, Rotation, Timetable
from shunter.backends.node.shapes import COUNT_MOST, Message, a_flag, checked, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shunter.backends.node.messages import Key

AGAIN_US = 1_000_000
LOOK_US = 1_000_000
SWITCH_LOOK_US = 50_000
ANSWER_MOST_US = 5_000_000
STUCK_AGAIN_US = 30_000_000  # more often would fill what the daemon's orders come through
SIGN_US = 1_000_000
SILENT_MOST_US = 5_000_000
AT_ONCE = fcntl.LOCK_EX | fcntl.LOCK_NB


class _Job:
    """A job that takes turns, as who rotates knows it.

    Attributes:
        record: how it takes turns, as it said last.
        mask: the GPUs that it was given or left last; 0: none.
        number: the order that said so; 0: it was given none yet.
        until_us: when its turn was to end by its timetable; 0: by none.
        stands_by_us: by when it is to stand still; None: it is not told to.
        asked_us: when it was asked last, since it did not stand still in time; None: it did.
        joined_us: since when it takes turns again, as far as that was dealt with.
    """

    def __init__(self, key: Key, record: Slice) -> None:
        self.key, self.record = key, record
        self.mask = self.number = self.until_us = 0
        self.stands_by_us: int | None = None
        self.asked_us: int | None = None
        self.joined_us: int | None = None


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
        self._jobs: dict[str, _Job] = {}
        self._number, self._ordered_us = now_us, now_us  # above all that another has given
        self._turns: dict[str, int] | None = {}
        self._read(now_us)
        for name in self._jobs:  # whatever the one before had begun
            self._end_turn(name, now_us)

    def look(self, now_us: int, *, has_changed: bool = False) -> None:
        """Do what is due; somebody may have told that others come or go."""
        if not has_changed and now_us < self.next_us:
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
        for name, job in list(self._jobs.items()):
            if self._is_gone(job.key):
                drop_member(self._slices, job.key)
                found.pop(name, None)
            if name not in found:
                self._forget(name, now_us)
        for name, key in list(found.items()):
            if name not in self._jobs and self._is_gone(key):
                drop_member(self._slices, key)
                del found[name]
                continue
            self._take(name, key, records[key], now_us)
        for name in found:
            self._call_off(name, now_us)

    def _call_off(self, name: str, now_us: int) -> None:
        """Have one stand still that was away, before anybody has its GPUs.

        An order of before may have given it up with that, or may still be on its way to it.
        """
        job = self._jobs[name]
        if job.record.joined_us != job.joined_us:
            job.joined_us = job.record.joined_us
            self._end_quantum(now_us)  # it may be packed with nobody any more
            self._end_turn(name, now_us)

    def _forget(self, name: str, now_us: int) -> None:
        """Know nothing of a job any more; its record may be there again, and stays.

        Who was packed with it has its turn, and its next one.
        """
        del self._jobs[name]
        heir = self._rotation.leave(name, now_us)
        if heir is not None and self._turns is not None and name in self._turns:
            self._turns[heir] = self._turns.pop(name)

    def _take(self, name: str, key: Key, record: Slice, now_us: int) -> None:
        """Take over what is said of a job by now, which may be new."""
        if name not in self._jobs:
            self._jobs[name] = _Job(key, record)
            if not self._rotation.members:
                self._rotation = Rotation(record.quantum_us, record.wait_most_us)
                self._set_clock(now_us)
            self._rotation.quantum_us = record.quantum_us
            joining = Member(name, record.home, record.weight, is_fixed=record.is_fixed)
            self._rotation.join(joining, now_us)
            joining.used_us = self._used.pop(name, joining.used_us)
        self._jobs[name].record, member = record, self._rotation.job(name)
        member.is_fixed, member.is_urgent = record.is_fixed, record.is_urgent
        times = record.timetable or ()
        member.timetable = Timetable(*times) if len(times) == 3 and times[0] > 0 else None
        if member.weight != record.weight:
            self._rotation.weigh(name, record.weight, now_us)
        if member.home != record.home:
            self._rotation.rehome(name, record.home)

    def _is_gone(self, key: Key) -> bool:
        """Say whether nothing of an attempt runs that could have a GPU."""
        folder = folder_of(self._root, *key)
        state = probe(folder).state
        return state == "ended" or (state in NO_END and not sweep(folder))

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
        for name, job in self._jobs.items():
            if job.mask and wanted.get(name, 0) != job.mask:
                self._end_turn(name, now_us)

    def _end_turn(self, name: str, now_us: int) -> None:
        job = self._jobs[name]
        job.stands_by_us = now_us + job.record.boundary_most_us + ANSWER_MOST_US
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
            pack = self._jobs[member.name].record.pack
            for each in member.packed:
                if not pack or self._jobs[each.name].record.pack != pack:
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
        leaving = {name: job for name, job in self._jobs.items() if job.stands_by_us is not None}
        overdue = []
        for name, job in leaving.items():
            if self._is_done(job):
                job.stands_by_us = None
            elif job.stands_by_us is not None and now_us >= job.stands_by_us:
                job.stands_by_us, job.asked_us = None, now_us
                overdue.append(name)
        for name in overdue:
            self._rotation.block(name, self._answer(self._jobs[name]).mask, now_us)
        if overdue:
            self._choose(now_us)
        if all(job.stands_by_us is None for job in self._jobs.values()):
            self._change_hands(self._turns, now_us)

    def _unblock(self, now_us: int) -> None:
        """Let those take turns again that stand still after all."""
        for job in self._jobs.values():
            if job.asked_us is not None and self._is_done(job):
                job.asked_us = None
        for member in self._rotation.members.values():
            if member.is_stuck and all(self._jobs[one].asked_us is None for one in member.names):
                self._rotation.unblock(member, now_us)

    def _change_hands(self, turns: dict[str, int], now_us: int) -> None:
        self._turns = None
        self._rotation.switch(turns, now_us)
        for name, mask in self._of_jobs(turns).items():
            if mask and mask != self._jobs[name].mask:
                self._order(name, mask)
        members = self._rotation.members.values()
        used = {name: each.used_us for each in members for name in each.names}
        with suppress(OSError):  # a full disk: the next one that rotates begins anew
            put_unsynced(f"{self._slices}/used", used)

    def _order(self, name: str, mask: int, until_us: int = 0) -> None:
        self._number += 1
        job = self._jobs[name]
        job.mask, job.number, job.until_us = mask, self._number, until_us
        self._send(job)

    def _send(self, job: _Job) -> None:
        order = Command(
            do="turn",
            term=count_in(f"{self._root}/term", "term"),
            mask=job.mask,
            server=self._server,
            until=job.until_us or None,
            number=job.number,
        )
        send(folder_of(self._root, *job.key), order)

    def _is_done(self, job: _Job) -> bool:
        return self._answer(job).number >= job.number

    def _answer(self, job: _Job) -> Turn:
        return answer_in(self._slices, job.key, folder_of(self._root, *job.key))

    def _check_numbers(self, now_us: int) -> None:
        """Give orders again that nobody has carried out."""
        if now_us < self._ordered_us + AGAIN_US:
            return
        self._ordered_us = now_us
        for job in self._jobs.values():
            asked_us = job.asked_us
            if asked_us is not None and now_us < asked_us + STUCK_AGAIN_US:
                continue
            if job.number and not self._is_done(job):
                self._send(job)
            if asked_us is not None:
                job.asked_us = now_us


class RotationLock:
    """The lock of a server, as one attempt has it or not, and its sign of life.

    A supervisor that hangs holds it on. Who rotates writes every second who it is, and the first
    number of its orders. Where that was not renewed for `SILENT_MOST_US`, another puts a new lock
    in the place of the old one. The one before finds that out before it does anything more, and no
    attempt begins a turn by an older number than the one that stands here, so an order that was
    still on its way gives nobody a GPU.

    Args:
        slices: the folder of those who share the GPUs of the server.
        key: job and number of the attempt.
    """

    def __init__(self, slices: str, key: Key) -> None:
        self._slices, self._key = slices, key
        self._held: int | None = None
        self._number = self._signed_us = 0

    def take(self, now_us: int) -> bool:
        """Take the lock if it is free, or its holder hangs; say if it is ours."""
        own_folder(self._slices)
        self._held = hold(f"{self._slices}/lock", AT_ONCE)
        is_free = self._held is not None
        if not is_free and self._is_silent(now_us):
            self._replace(now_us)
        if self._held is None or not self.is_ours():
            self.release()
            return False
        self._number = now_us
        try:
            self._sign(now_us)
        except OSError:  # a full disk
            if not is_free:  # an order of the one before might yet be believed
                self.release()
                return False
        name_rotating(self._held, self._key)
        return True

    def keep(self, now_us: int) -> bool:
        """Give the sign of life when it is due; False: another has taken our place."""
        if not self.is_ours():
            return False
        if now_us >= self._signed_us + SIGN_US:
            with suppress(OSError):  # a full disk: another takes over if it stays full
                self._sign(now_us)
        return True

    def is_ours(self) -> bool:
        """Say whether the lock that lies there is the one that is held here."""
        return self._held is not None and is_at(self._held, f"{self._slices}/lock")

    def release(self) -> None:
        """Give the lock up, if it is held."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _is_silent(self, now_us: int) -> bool:
        """Say whether the one that is known to hold the lock has given no sign for long."""
        rotating, sign = rotating_in(self._slices), get(_sign_of(self._slices)) or {}
        at_us = sign.get("at_us")
        is_known = rotating is not None and sign.get("by") == f"{rotating[0]}.{rotating[1]}"
        return is_known and isinstance(at_us, int) and now_us > at_us + SILENT_MOST_US

    def _replace(self, now_us: int) -> None:
        """Put a new lock in the place of the old one, unless another just does."""
        alone = hold(f"{self._slices}/lock.replace", AT_ONCE)
        if alone is None:
            return
        try:
            if self._is_silent(now_us):  # as it was: nobody was quicker
                os.unlink(f"{self._slices}/lock")
                self._held = hold(f"{self._slices}/lock", AT_ONCE)
                if self._held is not None:
                    name_rotating(self._held, self._key)  # or the next one would do so again
        finally:
            os.close(alone)

    def _sign(self, now_us: int) -> None:
        by = f"{self._key[0]}.{self._key[1]}"
        record = {"by": by, "number": self._number, "at_us": now_us}
        put_unsynced(_sign_of(self._slices), record)
        self._signed_us = now_us


def first_number(slices: str) -> int:
    """Return the least number of an order by who rotates; 0: not known."""
    return count_in(_sign_of(slices), "number")


def _sign_of(slices: str) -> str:
    return f"{slices}/rotating"


class Slice(AttemptTurns):
    """An attempt that takes turns, as those who share the GPUs of its server know it.

    `home` are its own GPUs, and if it `is_urgent` it is next. Those of one `pack` have turns at
    once, on the same GPUs. `joined_us` tells that it was away.
    """

    home: int = field(GPU_MASK)
    is_urgent: bool = field(a_flag)
    pack: str = field(PACK, default="")
    joined_us: int | None = field(COUNT, default=None)


class Turn(Message):
    """The last order about turns that was carried out: its number, and the GPUs.

    `ends` is the number of the order that ends the turn at the next boundary; 0: it goes on. Of a
    gang over several servers it is when the turn was to end, which is the same on all of them.
    """

    number: int = field(COUNT)
    mask: int = field(GPU_MASK)
    ends: int | None = field(COUNT, default=None)


def slices_of(root: str, server: str) -> str:
    """Return where those lie that share the GPUs of a server; any name will do."""
    return f"{root}/slices/{server.encode().hex()}"


def put_member(slices: str, key: Key, member: Slice) -> None:
    """Let an attempt take turns, or change how."""
    own_folder(slices)
    put_unsynced(f"{slices}/{key[0]}.{key[1]}", member)


def drop_member(slices: str, key: Key) -> None:
    """Let an attempt take no turns any more."""
    for path in (f"{slices}/{key[0]}.{key[1]}", _answer_of(slices, key)):
        with suppress(OSError):
            os.unlink(path)


def members_in(slices: str) -> dict[Key, Slice]:
    """Return who takes turns, in order of their names; what is no record is left out."""
    found = {}
    try:
        names = sorted(os.listdir(slices))
    except OSError:
        return {}
    for name in names:
        key = _key_in(name)
        member = checked(get(f"{slices}/{name}"), Slice.decoded) if key is not None else None
        if key is not None and member is not None and member.home:
            found[key] = member
    return found


def put_answer(slices: str, key: Key, turn: Turn) -> None:
    """Tell who rotates how a turn stands, where its job writes nothing."""
    put_unsynced(_answer_of(slices, key), turn)


def answer_in(slices: str, key: Key, folder: str) -> Turn:
    """Return the last answer; an older release writes it to its own folder."""
    return checked(get(_answer_of(slices, key)), Turn.decoded) or turn_in(folder)


def _answer_of(slices: str, key: Key) -> str:
    return f"{slices}/{key[0]}.{key[1]}.answer"


def turn_in(folder: str) -> Turn:
    """Return the last order about turns that was carried out, and the GPUs."""
    return checked(get(f"{folder}/turn"), Turn.decoded) or Turn(number=0, mask=0, ends=0)


def put_turn(folder: str, turn: Turn) -> None:
    """Say how the turn of an attempt stands, also to its job, whoever runs it."""
    put_unsynced(f"{folder}/turn", turn, mode=0o644)


def drop_turn(folder: str) -> None:
    """Take back what was said of an attempt's turn."""
    with suppress(OSError):
        os.unlink(f"{folder}/turn")


def name_rotating(lock: int, key: Key) -> None:
    """Write who rotates into the file that it holds locked."""
    with suppress(OSError):  # without it news is seen later
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{key[0]}.{key[1]}".encode(), 0)


def rotating_in(slices: str) -> Key | None:
    """Return who rotated last on a server, as far as it is known."""
    try:
        with open(open_regular(f"{slices}/lock"), "rb") as file:
            name = file.read(256).decode("utf-8", "replace")
    except OSError:
        return None
    return _key_in(name)


def _key_in(name: str) -> Key | None:
    """Return the job and the number of an attempt, of a name made of both."""
    job, _, attempt = name.rpartition(".")
    number = number_of(attempt)
    return None if number is None or checked(job, a_job) is None else (job, number)


def used_in(slices: str) -> dict[str, float]:
    """Return the time that each had, as far as it is known."""
    found = get(f"{slices}/used") or {}
    return {
        name: float(used)
        for name, used in found.items()
        if isinstance(used, (int, float)) and abs(used) < COUNT_MOST
    }
