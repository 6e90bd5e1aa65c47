"""The daemon as people meet it: a real `shunter serve`, over its socket and over TCP."""

__all__: list[str] = []
