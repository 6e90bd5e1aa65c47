"""What runs on a node: the supervisor of an attempt, and the view of all attempts there."""

__all__ = ()
