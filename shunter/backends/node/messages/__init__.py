"""What jobs tell supervisors, and supervisors schedulers: checked, bounded, read from an offset."""

__all__ = ()
