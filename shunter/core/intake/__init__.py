"""What comes in, from people and backends, and the facts it becomes."""

__all__: list[str] = []
