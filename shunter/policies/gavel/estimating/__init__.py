"""What nobody measured, guessed from what was: matrix completion, with its error."""

from shunter.policies.gavel.estimating.completion import Estimated, completed_table, guessed_rates

__all__ = ["Estimated", "completed_table", "guessed_rates"]
