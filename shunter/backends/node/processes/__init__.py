"""Whose processes are: found by what they carry and hold, not only by what lies in folders."""

__all__ = ()
