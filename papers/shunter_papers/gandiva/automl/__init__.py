"""Gandiva's AutoML experiment: a search over 100 configurations, in waves and in turns.

curves ─▶ baseline (closed form) and search (driver) ─▶ scenes ─▶ comparison ─▶ verdicts
"""

__all__: list[str] = []
