"""An attempt that is a batch job of its own: its claim, and what runs it on its node."""

__all__ = ()
