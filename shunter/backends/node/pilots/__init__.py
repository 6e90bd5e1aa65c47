"""What a pilot is on its node: a Slurm job that dials its daemon, and serves it there."""

__all__ = ()
