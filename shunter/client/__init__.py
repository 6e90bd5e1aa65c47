"""The Python client of a running daemon, synchronous and asynchronous."""

__all__: list[str] = []
