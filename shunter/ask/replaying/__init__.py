"""A recorded log read back: folded, decided again, and asked why."""

__all__: list[str] = []
