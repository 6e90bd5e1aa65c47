"""How facts become state."""

from shunter.core.fold.apply import RULES, apply, replay

__all__ = ["RULES", "apply", "replay"]
