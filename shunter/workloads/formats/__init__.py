"""The file formats traces come in: one module each, listed in the registry."""

__all__: list[str] = []
