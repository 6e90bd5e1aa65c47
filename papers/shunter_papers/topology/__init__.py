"""The comparison of the topology text (Xiao, SOSP student research competition 2017).

figures, scenes ─▶ placements ─▶ rows ─▶ verdicts ─▶ comparison ◀─ staleness, approvals
"""

from shunter_papers.topology.comparison import Asked, Reproduction, reproduce

__all__ = ["Asked", "Reproduction", "reproduce"]
