"""The short answer to why a job waits, and for whom free GPUs are."""

__all__ = ()
