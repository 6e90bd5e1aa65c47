"""The daemon without its doors: a Site on this machine."""

__all__: list[str] = []
