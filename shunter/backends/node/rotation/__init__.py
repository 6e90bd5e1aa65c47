"""Whose turn it is on the GPUs of one server: the rule of live servers, and of the simulator."""

__all__ = ()
