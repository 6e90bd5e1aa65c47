"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .mechanism import (
    WHOLE as WHOLE,
    Answer as Answer,
    Choice as Choice,
    Demands as Demands,
    Guarantees as Guarantees,
    Mechanism as Mechanism,
    Option as Option,
    Program as Program,
    SizeBook as SizeBook,
    Sizing as Sizing,
    Solver as Solver,
    Whole as Whole,
    counts_as_it_is as counts_as_it_is,
    whole_of as whole_of,
    with_shares as with_shares,
)
from .optimum import solve_sizes as solve_sizes, speed_of_sizes as speed_of_sizes
from .sized_plans import SizingInput as SizingInput, seek as seek, sized_plan as sized_plan
