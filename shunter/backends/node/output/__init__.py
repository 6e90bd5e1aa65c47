"""What ranks print: how much of it is kept, what it tells, and when it was printed."""

__all__ = ()
