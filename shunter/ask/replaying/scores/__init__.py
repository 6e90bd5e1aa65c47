"""What the scores of decisions count, and how that is said."""

__all__: list[str] = []
