"""Programs that choose sizes: the largest sum of speeds with the CPUs and memory of some servers.

One form for both of Synergy's programs (Mohan et al., OSDI 2022, section 4.1): with one server
that has all there is, it says what no sizes can beat; with every server by itself, and the GPUs of
each job where they are, it says which sizes to give. Who solves it is not known here.
"""

from collections.abc import Sequence
from typing import Protocol

from shunter.core.sizing.options import Option
from shunter.events.values.fact import fact
from shunter.events.values.resources import Resources


@fact
class Choice:
    """Jobs that are alike, each of which takes one of some sizes.

    Attributes:
        options: the sizes.
        gpus: how many GPUs each of the jobs has on which server, by its place in the program.
        count: how many jobs there are.
        liked: which option is taken if nothing is lost by it; None: any.
        known: which option is known to fit, if all take theirs.
    """

    options: tuple[Option, ...]
    gpus: tuple[tuple[int, int], ...]
    count: int = 1
    liked: int | None = None
    known: int = 0


@fact
class Program:
    """Choices, and the CPUs and memory of each server that they may have together.

    `is_whole`: each job takes one option; otherwise parts of several, which no sizes can beat.
    """

    choices: tuple[Choice, ...]
    room: tuple[Resources, ...]
    is_whole: bool


@fact
class Answer:
    """What was found: an option for each choice (none, if nothing was), and a bound.

    `bound` is the sum of speeds that no answer exceeds, infinite if nobody knows; `gap` how far
    below it the one that was found may be. A program that is not whole is answered by its bound.
    """

    chosen: tuple[int, ...]
    bound: float
    gap: float = 0.0


class Solver(Protocol):
    """Whoever solves programs: the same ones again in the same way."""

    def solve(self, programs: Sequence[Program]) -> Sequence[Answer]:
        """Return the answer to each program, in order."""
