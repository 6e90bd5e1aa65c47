"""From state and facts to JSON-able documents; the models say what they look like."""

__all__: list[str] = []
