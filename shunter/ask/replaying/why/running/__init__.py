"""What a running job has: CPUs and memory beside its GPUs, and turns on these."""

__all__ = ()
