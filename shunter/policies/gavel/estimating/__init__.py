"""What nobody measured, guessed from what was: matrix completion, with its error."""

from shunter.policies.gavel.estimating.completion import guessed_rates
from shunter.policies.gavel.estimating.tables import Estimated, completed_table

__all__ = ["Estimated", "completed_table", "guessed_rates"]
