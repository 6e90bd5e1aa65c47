"""Runs: one simulation, several compared, and the demonstration."""

__all__: list[str] = []
