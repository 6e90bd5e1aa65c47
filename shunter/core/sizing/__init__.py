"""How many CPUs and how much memory go with the GPUs of each job (Synergy, OSDI 2022)."""

from shunter.core.sizing.book import SizeBook
from shunter.core.sizing.demands import WHOLE, Demands
from shunter.core.sizing.guarantees import Guarantees
from shunter.core.sizing.mechanism import Mechanism, Sizing
from shunter.core.sizing.optimum import solve_sizes, speed_of_sizes
from shunter.core.sizing.options import Option
from shunter.core.sizing.programs import Answer, Choice, Program, Solver
from shunter.core.sizing.seeking import seek
from shunter.core.sizing.servers import GROWN, SHRUNK
from shunter.core.sizing.sized_plans import sized_plan
from shunter.core.sizing.sizing_input import SizingInput

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
