"""Alembic's environment and the revisions of a log's tables."""

__all__: list[str] = []
