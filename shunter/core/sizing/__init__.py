"""How many CPUs and how much memory go with the GPUs of each job (Synergy, OSDI 2022)."""

from shunter.core.sizing.mechanism import (
    WHOLE,
    Answer,
    Choice,
    Demands,
    Guarantees,
    Mechanism,
    Option,
    Program,
    SizeBook,
    Sizing,
    Solver,
)
from shunter.core.sizing.optimum import solve_sizes, speed_of_sizes
from shunter.core.sizing.sized_plans import GROWN, SHRUNK, SizingInput, seek, sized_plan

__all__ = [
    "GROWN",
    "SHRUNK",
    "WHOLE",
    "Answer",
    "Choice",
    "Demands",
    "Guarantees",
    "Mechanism",
    "Option",
    "Program",
    "SizeBook",
    "Sizing",
    "SizingInput",
    "Solver",
    "seek",
    "sized_plan",
    "solve_sizes",
    "speed_of_sizes",
]
