"""Comparisons with what others computed (make fidelity)."""

__all__: list[str] = []
