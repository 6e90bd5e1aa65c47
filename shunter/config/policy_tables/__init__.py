"""Tables of `[policy]` that are large enough to stand alone."""

__all__ = ()
