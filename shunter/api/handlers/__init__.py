"""What is done for each route, in files by subject."""

__all__: list[str] = []
