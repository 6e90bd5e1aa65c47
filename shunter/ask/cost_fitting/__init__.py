"""What a log measured: what starts and suspensions cost, how fast jobs are, what they worked."""

from shunter.ask.cost_fitting.attempts import (
    Attempt,
    Observed,
    ObservedJob,
    checkpoint_interval_us,
    observe_log,
)
from shunter.ask.cost_fitting.costs import (
    Fitted,
    Kind,
    Launch,
    fit_costs,
    slowed_us,
    work_us,
)
from shunter.ask.cost_fitting.slowed import NOT_SLOWED, Slowed, slowed_in
from shunter.ask.cost_fitting.writing import (
    config_text,
    fit_document,
    left_out,
    rates_document,
    uneven_starts,
    without_rates,
)

__all__ = [
    "NOT_SLOWED",
    "Attempt",
    "Fitted",
    "Kind",
    "Launch",
    "Observed",
    "ObservedJob",
    "Slowed",
    "checkpoint_interval_us",
    "config_text",
    "fit_costs",
    "fit_document",
    "left_out",
    "observe_log",
    "rates_document",
    "slowed_in",
    "slowed_us",
    "uneven_starts",
    "without_rates",
    "work_us",
]
