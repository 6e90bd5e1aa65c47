"""Where jobs really run, or seem to."""

__all__: list[str] = []
