"""Who may come in, and as whom: sockets, tokens, callers, and what is refused at the door."""

__all__: list[str] = []
