"""A whole run, read off its log: what became of each job, and the numbers that sum it up."""

__all__: list[str] = []
