"""Attempts that are batch jobs of their own: submitted, claimed, watched from a shared folder."""

__all__: list[str] = []
