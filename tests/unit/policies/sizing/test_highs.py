"""HiGHS on programs that choose sizes, against what can be counted by hand or tried out."""

from itertools import product
from math import inf, isinf

import pytest
from hypothesis import given, strategies as st

from shunter.core.sizing import Choice, Option, Program
from shunter.events import Resources
from shunter.policies import HighsSolver
from tests.slices import searched

pytest.importorskip("highspy", reason="needs HiGHS: the extra `solvers`")


def option(cpus_milli: int, memory_mb: int, speed: float) -> Option:
    return Option(Resources(0, cpus_milli, memory_mb), speed)


SMALL, LARGE = option(1000, 10, 1.0), option(3000, 20, 2.0)
HUGE = option(4000, 20, 2.5)


def choice(*options: Option, gpus: tuple[tuple[int, int], ...] = ((0, 1),)) -> Choice:
    return Choice(options, gpus)


def test_one_of_two_gets_what_only_one_can_have() -> None:
    """4 CPUs: 3 for one and 1 for the other; with 40 MB that is one 2.0 and one 1.0."""
    both = choice(SMALL, LARGE), choice(SMALL, LARGE)
    (found,) = HighsSolver().solve([Program(both, (Resources(0, 4000, 40),), is_whole=True)])
    assert sorted(found.chosen) == [0, 1]
    assert found.bound == pytest.approx(3.0)
    assert found.gap == 0


def test_a_gang_is_as_large_on_each_server_it_is_on() -> None:
    """2 GPUs on one server and 1 on another, which has 3 CPUs: so 3 for each GPU, and not 4."""
    gang = choice(SMALL, LARGE, HUGE, gpus=((0, 2), (1, 1)))
    room = Resources(0, 9000, 90), Resources(0, 3000, 90)
    (found,) = HighsSolver().solve([Program((gang,), room, is_whole=True)])
    assert found.chosen == (1,)


def test_parts_of_options_bound_what_whole_ones_make() -> None:
    """5 CPUs for two jobs that are alike: 1 + 3, or in parts 2.5 each, which makes 1.75 each."""
    alike = Choice((SMALL, LARGE), ((0, 1),), count=2)
    (found,) = HighsSolver().solve([Program((alike,), (Resources(0, 5000, 90),), is_whole=False)])
    assert found.bound == pytest.approx(3.5)


def test_of_equal_answers_it_takes_the_one_that_is_liked() -> None:
    for liked in (0, 1):
        first = Choice((SMALL, LARGE), ((0, 1),), liked=liked)
        second = Choice((SMALL, LARGE), ((0, 1),), liked=1 - liked)
        (found,) = HighsSolver().solve(
            [Program((first, second), (Resources(0, 4000, 40),), is_whole=True)]
        )
        assert found.chosen == (liked, 1 - liked)


def test_a_program_nothing_fits_has_no_answer() -> None:
    programs = [
        Program((choice(SMALL),), (Resources(0, 500, 40),), is_whole=is_whole)
        for is_whole in (True, False)
    ]
    placed, pooled = HighsSolver().solve(programs)
    assert (placed.chosen, pooled.chosen, pooled.bound) == ((), (), inf)


def test_after_the_time_limit_the_others_have_no_answer() -> None:
    program = Program((choice(SMALL, LARGE),), (Resources(0, 4000, 40),), is_whole=True)
    first, second = HighsSolver(seconds_most=1e-12).solve([program, program])
    assert not second.chosen
    assert isinf(second.bound)
    assert not first.chosen or first.chosen == (1,)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Return small programs of which every least option fits."""
    servers = draw(st.integers(1, 2))
    choices = []
    for _ in range(draw(st.integers(1, 4))):
        sizes = [SMALL] + [
            option(draw(st.integers(1, 6)) * 500, draw(st.integers(1, 30)), draw(st.floats(1, 4)))
            for _ in range(draw(st.integers(0, 3)))
        ]
        where = draw(st.sets(st.integers(0, servers - 1), min_size=1))
        gpus = tuple((server, draw(st.integers(1, 2))) for server in sorted(where))
        choices.append(Choice(tuple(sizes), gpus))
    room = tuple(
        Resources(0, 8000 + draw(st.integers(0, 8)) * 500, 80 + draw(st.integers(0, 60)))
        for _ in range(servers)
    )
    return Program(tuple(choices), room, is_whole=True)


def used(program: Program, chosen: tuple[int, ...]) -> list[Resources]:
    taken = [Resources()] * len(program.room)
    for each, number in zip(program.choices, chosen, strict=True):
        for server, gpus in each.gpus:
            taken[server] += each.options[number].per_gpu.times(gpus)
    return taken


def fits(program: Program, chosen: tuple[int, ...]) -> bool:
    pairs = zip(used(program, chosen), program.room, strict=True)
    return all(taken.fit_beside(room) for taken, room in pairs)


def speed(program: Program, chosen: tuple[int, ...]) -> float:
    pairs = zip(program.choices, chosen, strict=True)
    return sum(each.options[number].speed for each, number in pairs)


@searched(30)
@given(program=programs())
def test_no_other_answer_is_faster(program: Program) -> None:
    (found,) = HighsSolver().solve([program])
    every = product(*(range(len(each.options)) for each in program.choices))
    best = max(speed(program, chosen) for chosen in every if fits(program, chosen))
    assert fits(program, found.chosen)
    assert speed(program, found.chosen) == pytest.approx(best)
    assert found.bound >= best - 1e-6
