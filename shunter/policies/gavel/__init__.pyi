"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .answers import (
    concluded as concluded,
    finish_time_fairness as finish_time_fairness,
    finished as finished,
    hierarchical as hierarchical,
    isolated as isolated,
    isolated_fractions as isolated_fractions,
    largest_level as largest_level,
    least_total_duration as least_total_duration,
    max_min_fairness as max_min_fairness,
    max_sum_throughput as max_sum_throughput,
    min_cost as min_cost,
    proportional as proportional,
    water_filling as water_filling,
)
from .arrays import (
    Arrays as Arrays,
    Problem as Problem,
    arrays_of as arrays_of,
    divided as divided,
    few_pairs as few_pairs,
    first_in_queues as first_in_queues,
    least_cost_assignment as least_cost_assignment,
    pairs_among as pairs_among,
)
from .changes import changes_of as changes_of
from .completion import (
    complete as complete,
    completed_table as completed_table,
    guessed_rates as guessed_rates,
)
from .interior import Floats as Floats, follow as follow
from .mechanism import (
    Demands as Demands,
    Fractions as Fractions,
    Gang as Gang,
    JobRequest as JobRequest,
    Ledger as Ledger,
    Targets as Targets,
)
from .objectives import (
    OBJECTIVES as OBJECTIVES,
    Chosen as Chosen,
    FastestFirst as FastestFirst,
    FinishTimes as FinishTimes,
    GandivaFair as GandivaFair,
    Holding as Holding,
    Isolated as Isolated,
    MaxMinFairness as MaxMinFairness,
    Proportional as Proportional,
    ThroughputSum as ThroughputSum,
    trade as trade,
)
from .policy import (
    Gavel as Gavel,
    GavelPolicy as GavelPolicy,
    MinCostPolicy as MinCostPolicy,
    Timing as Timing,
    guesses_in_words as guesses_in_words,
)
from .programs import (
    Groups as Groups,
    Pairs as Pairs,
    Places as Places,
    Program as Program,
    Shares as Shares,
    Status as Status,
    alike as alike,
    proportional_rates as proportional_rates,
)
from .requests import GavelMemory as GavelMemory, Measured as Measured, Rates as Rates
from .seating import (
    Candidate as Candidate,
    FreeByType as FreeByType,
    Placements as Placements,
    choose as choose,
)
from .two_level import TwoLevel as TwoLevel, TwoLevelPolicy as TwoLevelPolicy
