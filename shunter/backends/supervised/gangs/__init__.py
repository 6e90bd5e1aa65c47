"""Gangs: attempts whose parts run on several nodes, as one."""

__all__ = ()
