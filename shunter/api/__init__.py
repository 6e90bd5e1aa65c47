"""The HTTP API of a live cluster: one table of routes, over one running site."""

__all__: list[str] = []
