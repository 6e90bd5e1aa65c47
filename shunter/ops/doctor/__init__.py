"""What a machine lacks for a live cluster, and how to mend it: one check a subject."""

__all__: list[str] = []
