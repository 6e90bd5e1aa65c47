"""Workloads made from a seed: statistics of public traces, not their jobs."""

__all__: list[str] = []
