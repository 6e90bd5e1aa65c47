"""Who may call, and as whom: sockets, tokens, callers, and what is refused unread."""

__all__: list[str] = []
