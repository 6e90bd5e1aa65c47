"""Selection and seating: who runs in the next round, and on which GPUs."""

import random

import pytest

from shunter.events import GpuType, JobId
from shunter.policies.gavel import Gang
from shunter_peers.gavel.ledger import Ledger
from shunter_peers.gavel.mersenne_twister import MersenneTwister
from shunter_peers.gavel.seating import Seat, seat
from shunter_peers.gavel.selection import select

V100, K80 = GpuType("v100"), GpuType("k80")


def gang(*numbers: int) -> Gang:
    return tuple(JobId(f"j{number}") for number in numbers)


class Known:
    """Gangs of known sizes; some cannot run on K80s."""

    def __init__(self, sizes: dict[Gang, int], not_on_k80: tuple[Gang, ...] = ()) -> None:
        self.sizes = sizes
        self.not_on_k80 = not_on_k80

    def gpus(self, gang: Gang) -> int:
        return self.sizes[gang]

    def can_run(self, gang: Gang, gpu_type: GpuType) -> bool:
        return gpu_type != K80 or gang not in self.not_on_k80


def ledger(fractions: dict[Gang, float], *others: Gang) -> Ledger:
    """Return a ledger with the same fraction on both types for each gang."""
    found = Ledger([V100, K80])
    for one in (*fractions, *others):
        found.add(one)
    found.reset({one: {V100: part, K80: part} for one, part in fractions.items()}, 0.0)
    return found


A, B, C = gang(0), gang(1), gang(2)


def test_gang_furthest_behind_its_target_is_chosen_first() -> None:
    book = ledger({A: 0.5, B: 0.5})
    book.credit(A, V100, 360.0)

    assert select(book, Known({A: 1, B: 1}), [V100], {V100: 1}) == {V100: [B]}


def test_equal_gangs_are_chosen_in_order_of_arrival() -> None:
    assert select(ledger({A: 0.5, B: 0.5}), Known({A: 1, B: 1}), [V100], {V100: 1}) == {V100: [A]}


def test_gang_is_chosen_on_one_type_only() -> None:
    chosen = select(ledger({A: 1.0}), Known({A: 1}), [V100, K80], {V100: 2, K80: 2})

    assert chosen == {V100: [A], K80: []}


def test_smaller_gang_fills_what_a_larger_one_leaves() -> None:
    chosen = select(ledger({A: 0.9, B: 0.8, C: 0.1}), Known({A: 2, B: 4, C: 1}), [V100], {V100: 3})

    assert chosen == {V100: [A, C]}


def test_gang_without_claim_runs_while_there_is_room() -> None:
    book, known = ledger({A: 0.5, B: 0.0}), Known({A: 1, B: 1})

    assert select(book, known, [V100], {V100: 2}) == {V100: [A, B]}
    assert select(book, known, [V100], {V100: 2}, needs_claim=True) == {V100: [A]}


def test_gang_is_not_chosen_where_it_cannot_run() -> None:
    assert select(ledger({A: 1.0}), Known({A: 1}, (A,)), [K80], {K80: 1}) == {K80: []}


def test_pair_and_its_halves_exclude_each_other() -> None:
    pair = gang(0, 1)
    chosen = select(
        ledger({pair: 0.6, A: 0.5, B: 0.5}), Known({pair: 1, A: 1, B: 1}), [V100], {V100: 3}
    )

    assert chosen == {V100: [pair]}


def test_pair_of_unequal_jobs_is_never_chosen() -> None:
    pair = gang(0, 1)

    assert select(ledger({pair: 0.6}), Known({pair: 0}), [V100], {V100: 3}) == {V100: []}


def test_gang_without_fractions_takes_room_all_the_same() -> None:
    known, room = Known({A: 1, B: 1}), {V100: 2}

    assert select(ledger({A: 1.0}, B), known, [V100], room) == {V100: [A, B]}


def test_running_gang_keeps_its_gpus() -> None:
    before = {A: Seat(V100, (3,))}

    seated = seat({V100: [B, A]}, Known({A: 1, B: 1}), {V100: range(4)}, before, {A, B})

    assert seated == {A: Seat(V100, (3,)), B: Seat(V100, (0,))}


def test_larger_gang_may_take_the_gpus_of_a_smaller_one_that_ran_there() -> None:
    before = {A: Seat(V100, (0,))}

    seated = seat({V100: [A, B]}, Known({A: 1, B: 2}), {V100: range(3)}, before, {A, B})

    assert seated == {B: Seat(V100, (0, 1)), A: Seat(V100, (2,))}


def test_gang_that_changes_its_type_changes_its_gpus() -> None:
    before = {A: Seat(K80, (0,))}

    assert seat({V100: [A]}, Known({A: 1}), {V100: [7]}, before, {A}) == {A: Seat(V100, (7,))}


def test_gang_that_is_not_planned_gets_no_gpus() -> None:
    assert seat({V100: [A]}, Known({A: 1}), {V100: [0]}, {}, set()) == {}


@pytest.mark.parametrize("seed", [0, 5, 12, 4_000_000_000])
def test_shuffles_are_those_of_the_language(seed: int) -> None:
    ours, theirs = MersenneTwister.seeded(seed), random.Random(seed)

    for size in [3] * 500 + [2, 1, 10]:
        one, other = list(range(size)), list(range(size))
        ours.shuffle(one)
        theirs.shuffle(other)
        assert one == other


@pytest.mark.parametrize("seed", [0, 5, 12345])
def test_twos_are_those_of_the_public_simulator(seed: int) -> None:
    """Lists of up to 21 are drawn from in another way than longer ones."""
    ours, theirs = MersenneTwister.seeded(seed), random.Random(seed)

    for size in (*range(2, 60), *range(2, 60)):
        assert list(ours.sample_two(range(size))) == theirs.sample(range(size), 2)


def test_pair_takes_the_place_of_both_its_jobs() -> None:
    pair = gang(0, 1)
    book = ledger({pair: 0.5, A: 0.1, C: 0.1})

    assert select(book, Known({pair: 1, A: 1, C: 1}), [V100], {V100: 2}) == {V100: [pair, C]}


def test_pair_of_unequal_gangs_is_never_chosen() -> None:
    pair = gang(0, 1)

    assert select(ledger({pair: 0.5}), Known({pair: 0}), [V100], {V100: 9}) == {V100: []}
