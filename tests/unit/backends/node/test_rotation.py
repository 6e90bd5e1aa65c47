"""Whose turn it is on the GPUs of a server: fair by weight, whole gangs, nothing idle."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, strategies as st

from shunter.backends.node import Member, Rotation

QUANTUM_US = 60


def rotation(*homes: int, weights: tuple[float, ...] = (), **options: int) -> Rotation:
    """Return a rotation of jobs `a`, `b`... that were given these GPUs; all joined at 0."""
    found = Rotation(QUANTUM_US, **options)
    for number, home in enumerate(homes):
        weight = weights[number] if weights else 1.0
        found.join(Member(chr(ord("a") + number), home, weight, is_fixed=False), 0)
    found.fill(0)
    return found


def on(turns: Rotation) -> str:
    """Return who has a turn, in order of name."""
    return "".join(sorted(name for name, member in turns.members.items() if member.mask))


def after(turns: Rotation, quanta: int) -> Counter[str]:
    """Let so many quanta go by; return the time each job had."""
    had: Counter[str] = Counter()
    for _ in range(quanta):
        ends_us = turns.ends_us
        assert ends_us is not None, "nobody waits"
        had.update(dict.fromkeys(on(turns), QUANTUM_US))
        turns.switch(turns.next_turns(ends_us), ends_us)
    return had


SHARES = """
six jobs on four GPUs have two turns of three: 1 2 4 8 1 2, 30 quanta: 20 20 20 20 20 20
weight is the part of the time: 1*3 1, 40 quanta: 30 10
a heavy job cannot have more than all of the time: 1*9 2 1, 40 quanta: 40 20 20
a gang has all its GPUs or none: 3 1 2, 20 quanta: 10 10 10
one that cannot move has turns on its own GPUs: 1! 1! 2!, 20 quanta: 10 10 20
"""


@pytest.mark.parametrize("row", SHARES.strip().splitlines())
def test_jobs_have_the_parts_of_the_time_that_the_row_says(row: str) -> None:
    """Of each job the row has the GPUs, `*` its weight, `!` if it is fixed, and its quanta."""
    _, told, expected = row.split(": ")
    jobs, _, quanta = told.partition(", ")
    turns = Rotation(QUANTUM_US)
    for name, job in zip("abcdef", jobs.split(), strict=False):
        home, _, weight = job.rstrip("!").partition("*")
        turns.join(Member(name, int(home), float(weight or 1), is_fixed=job.endswith("!")), 0)
    turns.fill(0)
    had = after(turns, int(quanta.split()[0]))
    assert [had[name] // QUANTUM_US for name in sorted(turns.members)] == [
        *map(int, expected.split())
    ]
    for member in turns.members.values():
        assert not member.is_fixed or member.mask in {0, member.home}


def test_who_goes_on_keeps_its_gpus() -> None:
    turns = rotation(1, 2, 4, 8, 1, 2)
    before = {name: member.mask for name, member in turns.members.items()}
    following = turns.next_turns(QUANTUM_US)
    staying = [name for name in following if before[name]]
    assert staying == ["a", "b"]
    assert all(following[name] == before[name] for name in staying)


def test_time_beyond_a_quantum_counts() -> None:
    """A mini-batch that ends late is made up for: `a` worked three quanta in one."""
    turns = rotation(1, 1)
    turns.switch(turns.next_turns(QUANTUM_US), 3 * QUANTUM_US)
    assert on(turns) == "b"
    for quantum in (4, 5):
        turns.switch(turns.next_turns(quantum * QUANTUM_US), quantum * QUANTUM_US)
        assert on(turns) == "b"
    turns.switch(turns.next_turns(6 * QUANTUM_US), 6 * QUANTUM_US)
    assert on(turns) == "a"


def test_who_joins_has_no_credit_and_no_debt() -> None:
    turns = rotation(1, 1)
    after(turns, 10)
    turns.join(Member("c", 1, 1.0, is_fixed=False), 10 * QUANTUM_US)
    had = after(turns, 30)
    assert had == dict.fromkeys("abc", 10 * QUANTUM_US)


def test_gpus_of_who_leaves_go_to_who_waits_at_once() -> None:
    turns = rotation(1, 2, 1)
    turns.leave("b", 10)
    assert [member.name for member in turns.fill(10)] == []  # nobody is at home on its GPU any more
    turns = rotation(1, 2, 1, 2)
    turns.leave("a", 10)
    assert [member.name for member in turns.fill(10)] == ["c"]
    assert on(turns) == "bc"


def test_who_waited_too_long_goes_first() -> None:
    """`c` weighs next to nothing; without the limit it would wait for 100 turns of the others."""
    turns = rotation(1, 1, 1, weights=(1.0, 1.0, 0.01), wait_most_us=5 * QUANTUM_US)
    after(turns, 3)  # it has had its first turn by now
    had = after(turns, 100)
    assert had["c"] > 10 * QUANTUM_US
    rarely = rotation(1, 1, 1, weights=(1.0, 1.0, 0.01))
    after(rarely, 3)
    assert after(rarely, 100)["c"] <= QUANTUM_US


def test_alone_nobody_is_waited_for() -> None:
    assert rotation(1, 2).ends_us is None
    assert rotation(1, 1).ends_us == QUANTUM_US


@given(
    homes=st.lists(st.sampled_from([1, 2, 4, 8, 3, 12, 15]), min_size=1, max_size=8),
    fixed=st.lists(st.booleans(), min_size=8, max_size=8),
    leaving=st.lists(st.integers(0, 7), max_size=4),
)
def test_no_gpu_has_two_turns_and_none_idles_that_somebody_could_use(
    homes: list[int], fixed: list[bool], leaving: list[int]
) -> None:
    turns = Rotation(QUANTUM_US)
    for number, home in enumerate(homes):
        turns.join(Member(f"j{number}", home, 1.0, is_fixed=fixed[number]), 0)
    turns.fill(0)
    had: Counter[str] = Counter()
    now_us = 0
    for quantum in range(40):
        taken = 0
        for member in turns.members.values():
            assert not member.mask & taken
            assert member.mask.bit_count() in {0, member.width}
            taken |= member.mask
        for member in turns.waiting:
            free = (member.home if member.is_fixed else turns.gpus) & ~taken
            assert free.bit_count() < member.width
        had.update({name: 1 for name, member in turns.members.items() if member.mask})
        if turns.ends_us is None:
            break
        now_us = turns.ends_us
        if quantum < len(leaving) and f"j{leaving[quantum]}" in turns.members:
            turns.leave(f"j{leaving[quantum]}", now_us)
            turns.fill(now_us)
        turns.switch(turns.next_turns(now_us), now_us)
    if len(turns.members) == len(homes):
        assert set(had) == set(turns.members)  # nobody starves


def test_who_had_a_gpu_for_itself_waits_no_more_than_a_quantum_for_who_joins() -> None:
    """Two work on GPUs of their own only; the first had its for an hour."""
    turns = Rotation(QUANTUM_US)
    turns.join(Member("a", 1, 1.0, is_fixed=True), 0)
    turns.join(Member("b", 2, 1.0, is_fixed=True), 0)
    turns.join(Member("c", 2, 1.0, is_fixed=True), 0)
    turns.fill(0)
    now_us = 60 * QUANTUM_US
    turns.switch(turns.next_turns(now_us), now_us)
    turns.join(Member("d", 1, 1.0, is_fixed=True), now_us)
    assert turns.members["d"].used_us == turns.members["a"].used_us
    turns.members["a"].used_us += 1000 * QUANTUM_US  # as if it had joined after an hour
    turns.join(Member("e", 1, 1.0, is_fixed=True), now_us)
    had = after(turns, 12)
    assert had["a"] >= 3 * QUANTUM_US, "it has its part of the next turns"


def test_urgent_one_goes_first_and_who_is_packed_with_it_only_for_as_long() -> None:
    turns = rotation(1, 1, 1)
    turns.pack("b", "c", 0)
    turns.job("b").is_urgent = True
    turns.members["c"].used_us = 10.0 * QUANTUM_US
    assert turns.next_turns(QUANTUM_US) == {"c": 1}
    turns.switch({"c": 1}, QUANTUM_US)
    turns.part("b", 2 * QUANTUM_US)
    turns.leave("b", 2 * QUANTUM_US)
    assert turns.next_turns(2 * QUANTUM_US) == {"a": 1}, "it had its time, and that counts"


def test_turns_stay_a_quantum_long_where_boundaries_come_late() -> None:
    """Two on a GPU, whose last mini-batches take up to a third of a quantum: they alternate.

    Only once what they have had differs by more than half a quantum one has two in a row.
    """
    turns, chance, now_us, ended = rotation(1, 1), Random(7), 0, list[str]()
    for _ in range(60):
        ended.append(on(turns))
        ends_us = turns.ends_us
        assert ends_us is not None
        following = turns.next_turns(ends_us)
        now_us = ends_us + chance.randrange(QUANTUM_US // 3)
        turns.switch(following, now_us)
    assert sum(first == second for first, second in pairwise(ended)) <= 6
    used = [member.used_us for member in turns.members.values()]
    assert abs(used[0] - used[1]) <= 1.5 * QUANTUM_US
