"""Agents of nodes, as the daemon talks to them: how they are reached, what is said."""

__all__: list[str] = []
