"""Jobs that share GPUs, at once or in turns: what of that becomes state."""

__all__ = ()
