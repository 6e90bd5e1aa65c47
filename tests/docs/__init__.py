"""The commands of the tutorials and how-to guides, run as they stand there."""

__all__: list[str] = []
