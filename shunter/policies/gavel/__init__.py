"""Gavel: policies as optimisation problems (Narayanan et al., OSDI 2020)."""

__all__: list[str] = []
