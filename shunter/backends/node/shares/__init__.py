"""What holds the processes of an attempt to their CPUs and memory. Standard library only."""

__all__ = ()
