"""What is asked of a far host only: a conversation, its checkpoints, what it has."""

__all__: list[str] = []
