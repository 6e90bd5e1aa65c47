"""The comparison of Synergy (OSDI 2022): what CPUs and memory by sensitivity are worth.

figures ─▶ scenes ─▶ comparison ─▶ verdicts
"""

__all__: list[str] = []
