"""Logs in SQL: tables, the store that writes them and the source that reads them."""

__all__: list[str] = []
