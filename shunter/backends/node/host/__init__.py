"""The host of an agent: users, files, GPUs and their wiring."""

__all__ = ()
