"""Who runs in a turn, and where: from claims to GPUs of servers."""

__all__: list[str] = []
