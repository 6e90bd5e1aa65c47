"""The problems of Gavel's policies, in plain arrays: groups of jobs in, fractions of time out.

Nothing here knows of events, jobs or rounds. Importing it imports numpy, so a policy does that
when it is built, not when it is listed.
"""

from shunter.policies.gavel.solving.answers import (
    finish_time_fairness,
    isolated,
    isolated_fractions,
    least_total_duration,
    max_min_fairness,
    max_sum_throughput,
    min_cost,
    proportional,
)
from shunter.policies.gavel.solving.filling import hierarchical, water_filling
from shunter.policies.gavel.solving.groups import (
    Groups,
    Pairs,
    Shares,
    Status,
    alike,
    proportional_rates,
)

__all__ = [
    "Groups",
    "Pairs",
    "Shares",
    "Status",
    "alike",
    "finish_time_fairness",
    "hierarchical",
    "isolated",
    "isolated_fractions",
    "least_total_duration",
    "max_min_fairness",
    "max_sum_throughput",
    "min_cost",
    "proportional",
    "proportional_rates",
    "water_filling",
]
