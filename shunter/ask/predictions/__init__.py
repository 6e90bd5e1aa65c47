"""When jobs start and end: forks of a moment, run on many times, and how often that held."""

__all__: list[str] = []
