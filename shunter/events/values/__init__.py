"""The value types facts are made of."""

__all__: list[str] = []
