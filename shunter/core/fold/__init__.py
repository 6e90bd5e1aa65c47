"""How facts become state."""

from shunter.core.fold.apply import RULES, Rule, apply, replay

__all__ = ["RULES", "Rule", "apply", "replay"]
