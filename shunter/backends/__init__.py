"""Where jobs really run, or seem to."""

__all__ = ()
