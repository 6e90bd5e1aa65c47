"""The daemon as a process: its sockets, its signals, and the site with its API at work."""

__all__: list[str] = []
