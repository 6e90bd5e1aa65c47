"""What a log measured: what starts and suspensions cost, how fast jobs are, what they worked."""

from shunter.app.cost_fitting.attempts import Attempt, Observed, ObservedJob, observe_log
from shunter.app.cost_fitting.costs import (
    Fitted,
    Kind,
    Launch,
    checkpoint_interval_us,
    fit_costs,
    work_us,
)
from shunter.app.cost_fitting.writing import config_text, fit_document, left_out, rates_document

__all__ = [
    "Attempt",
    "Fitted",
    "Kind",
    "Launch",
    "Observed",
    "ObservedJob",
    "checkpoint_interval_us",
    "config_text",
    "fit_costs",
    "fit_document",
    "left_out",
    "observe_log",
    "rates_document",
    "work_us",
]
