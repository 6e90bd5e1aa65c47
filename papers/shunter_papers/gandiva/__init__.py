"""The comparison of Gandiva (OSDI 2018): early feedback, equal shares in turns, AutoML.

figures ─▶ scenes ─▶ comparison ─▶ verdicts
"""

__all__: list[str] = []
