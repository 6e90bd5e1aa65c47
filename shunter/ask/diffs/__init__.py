"""Two runs compared: where their decisions part and why, and what came of it."""

__all__: list[str] = []
