"""The comparison of Gandiva (OSDI 2018): early feedback, and equal shares of servers in turns.

figures ─▶ scenes ─▶ comparison ─▶ verdicts
"""

__all__: list[str] = []
