"""Supervisors that hang while jobs take turns: they hold up nobody who can do without their GPUs.

Several attempts without processes, all in this process, with a clock that the test moves. Each
obeys what comes through its FIFO; one that hangs neither reads nor looks. Whenever a turn begins it
is checked that nobody else has one of its GPUs.
"""

import fcntl
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from shunter.backends.node import (
    ANSWER_MOST_US,
    SILENT_MOST_US,
    Command,
    Turns,
    commands_in,
    fifo,
    folder_of,
    hold,
    rotating_in,
    slices_of,
    turns as turns_module,
)
from tests.unit.backends.node.orders import order_of

STEP_S, QUANTUM_S, BOUNDARY_S = 0.1, 0.5, 1.0
STUCK_S = BOUNDARY_S + ANSWER_MOST_US / 1e6
CATCH_UP_S = 60  # who hung on its turn has had that time, and waits for the others
REPLACED_S = SILENT_MOST_US / 1e6 + 1.5


class Server:
    """A server of some GPUs, and those that take turns on it."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.now_s = 1000.0
        self.attempts: list[Attempt] = []
        self.clock = SimpleNamespace(monotonic_ns=lambda: int(self.now_s * 1e9))

    def starts(self, home: int, *, is_fixed: bool = True) -> "Attempt":
        made = Attempt(self, f"j{len(self.attempts)}", home, is_fixed=is_fixed)
        self.attempts.append(made)
        return made

    def passes(self, seconds: float) -> Counter[str]:
        """Let time pass; return how many turns each began meanwhile."""
        before = Counter({each.name: each.begun for each in self.attempts})
        for _ in range(round(seconds / STEP_S)):
            self.now_s += STEP_S
            for each in self.attempts:
                each.works()
        return Counter({each.name: each.begun for each in self.attempts}) - before

    def rotates(self) -> "Attempt":
        key = rotating_in(slices_of(self.root, "n0"))
        return next(each for each in self.attempts if (each.name, 1) == key)


class Attempt:
    """An attempt whose supervisor may hang, or be gone."""

    def __init__(self, server: Server, name: str, home: int, *, is_fixed: bool) -> None:
        self.server, self.name, self.mask, self.begun = server, name, 0, 0
        self.hangs = self.is_gone = False
        self.folder = folder_of(server.root, name, 1)
        Path(self.folder).mkdir(parents=True)
        slicing = {"weight": 1.0, "is_fixed": is_fixed, "wait_most_us": None}
        slicing |= {"quantum_us": int(QUANTUM_S * 1e6), "boundary_most_us": int(BOUNDARY_S * 1e6)}
        order = order_of(job=name, placement=[["n0", home]], slicing=slicing)
        self._held = hold(f"{self.folder}/lock", fcntl.LOCK_EX)
        self._orders = fifo(f"{self.folder}/orders")
        self.turns = Turns(server.root, order, lambda: (), self._note)
        self.turns.join()

    def works(self) -> None:
        if self.hangs or self.is_gone:
            return
        for order in commands_in(self._orders):
            if order.do == "turn":
                self.turns.obey(order)
            else:
                self.turns.note_change()
        self.turns.look()

    def dies(self) -> None:
        """Be gone without a word, as who is killed is."""
        self.is_gone, self.mask = True, 0
        assert self._held is not None
        os.close(self._held)
        os.close(self._orders)
        for place in self.turns._places:
            place._lock.release()

    def _note(self, what: str, **fields: Any) -> None:
        if what == "turn_ended":
            self.mask = 0
        elif what == "turn_started":
            self.mask, self.begun = fields["mask"], self.begun + 1
            others = [each for each in self.server.attempts if each is not self]
            assert not [each.name for each in others if each.mask & self.mask]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server(tmp_path)
    monkeypatch.setattr(turns_module, "time", made.clock)
    yield made
    for each in made.attempts:
        if not each.is_gone:
            each.dies()


def with_two_each(server: Server) -> list[Attempt]:
    """Have four jobs of one GPU take turns on two; the last one rotates."""
    rotating = server.starts(2)
    server.passes(0.5)
    others = [server.starts(home) for home in (1, 1, 2)]
    assert server.passes(4 * QUANTUM_S).keys() == {each.name for each in server.attempts}
    assert server.rotates() is rotating
    return [*others, rotating]


def on_its_turn(server: Server, attempt: Attempt) -> None:
    while not attempt.mask:
        server.passes(STEP_S)


@pytest.mark.parametrize(
    ("on_turn", "hangs", "for_s", "goes_on", "without"),
    [
        ("a", "a", STUCK_S + 2 * QUANTUM_S, False, "b"),
        ("a", "a", STUCK_S + 2 * QUANTUM_S, True, ""),
        ("b", "a", STUCK_S + 6 * QUANTUM_S, False, "b"),  # its order may still be carried out
        ("d", "d", REPLACED_S + STUCK_S + 2 * QUANTUM_S, False, "c"),
        ("", "d", REPLACED_S + STUCK_S, True, ""),
    ],
    ids=["on its turn", "goes on", "before its turn", "the rotating one", "which goes on"],
)
def test_who_hangs_holds_up_those_on_its_gpu_only_until_it_goes_on(
    server: Server, on_turn: str, hangs: str, for_s: float, without: str, *, goes_on: bool
) -> None:
    """`a` and `b` share a GPU, `c` and `d` another; `d` rotates, and another in its place."""
    four = dict(zip("abcd", with_two_each(server), strict=True))
    if on_turn:
        on_its_turn(server, four[on_turn])
    four[hangs].hangs = True
    server.passes(for_s)
    rotating = server.rotates()
    assert (rotating is four["d"]) is (hangs != "d")
    four[hangs].hangs = not goes_on
    turns = server.passes(20 * QUANTUM_S)
    assert server.rotates() is rotating
    had = {name: turns[each.name] for name, each in four.items() if not each.hangs}
    assert [name for name, count in had.items() if not count] == [*without]
    assert all(count >= 3 for name, count in had.items() if name not in without)


def test_the_gpu_of_one_that_hung_is_free_once_it_is_gone(server: Server) -> None:
    first, second, *_ = with_two_each(server)
    on_its_turn(server, first)
    first.hangs = True
    server.passes(STUCK_S + 2 * QUANTUM_S)
    first.dies()
    server.passes(3.0)
    assert second.mask == 1


def test_a_job_that_can_move_has_its_turns_beside_one_that_hangs(server: Server) -> None:
    first, second, *_ = [server.starts(home, is_fixed=False) for home in (1, 1, 2, 2)]
    server.passes(4 * QUANTUM_S)
    hanging, other = (second, first) if server.rotates() is first else (first, second)
    on_its_turn(server, hanging)
    hanging.hangs = True
    server.passes(STUCK_S + 2 * QUANTUM_S)
    turns = server.passes(30 * QUANTUM_S)
    assert turns[other.name] >= 2
    assert turns[hanging.name] == 0


def test_an_order_of_one_that_was_replaced_gives_no_turn(server: Server) -> None:
    *_, rotating = with_two_each(server)
    rotating.hangs = True
    number = int(server.now_s * 1e6)
    server.passes(REPLACED_S + STUCK_S)
    late = server.starts(4)
    late.turns.obey(Command(do="turn", mask=4, number=number))
    assert late.mask == 0
    server.passes(QUANTUM_S)
    assert late.mask == 4


def test_a_folder_in_place_of_what_tells_a_job_its_turn_holds_up_nobody(server: Server) -> None:
    first, *_ = with_two_each(server)
    turn = Path(first.folder, "turn")
    turn.unlink()
    (turn / "x").mkdir(parents=True)
    turns = server.passes(20 * QUANTUM_S)
    assert all(turns[each.name] >= 3 for each in server.attempts)


@settings(max_examples=12)  # each takes a second or more
@given(
    homes=st.lists(st.sampled_from([1, 2, 3]), min_size=2, max_size=4),
    are_fixed=st.lists(st.booleans(), min_size=5, max_size=5),
    deeds=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 80)), max_size=4),
)
def test_whoever_hangs_and_goes_on_no_gpu_is_had_by_two_and_all_have_turns_after(
    homes: list[int], are_fixed: list[bool], deeds: list[tuple[int, int]]
) -> None:
    """`Attempt` asserts at each turn that begins that its GPUs are nobody else's."""
    with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        server = Server(Path(root))
        patch.setattr(turns_module, "time", server.clock)
        for home, is_fixed in zip(homes, are_fixed, strict=False):
            server.starts(home, is_fixed=is_fixed or home == 3)
        for who, steps in deeds:
            each = server.attempts[who % len(server.attempts)]
            each.hangs = not each.hangs
            server.passes(steps * STEP_S)
        for each in server.attempts:
            each.hangs = False
        server.passes(REPLACED_S + STUCK_S)
        wanted = {each.name: each.begun + (not each.mask) for each in server.attempts}
        waiting = list(wanted)
        for _ in range(CATCH_UP_S):
            waiting = [each.name for each in server.attempts if each.begun < wanted[each.name]]
            if waiting:
                server.passes(1.0)
        for each in server.attempts:
            each.dies()
    assert not waiting
