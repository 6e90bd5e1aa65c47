"""Commands that simulate a log on."""

__all__: list[str] = []
