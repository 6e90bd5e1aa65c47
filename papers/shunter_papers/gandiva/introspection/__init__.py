"""What Gandiva gains by trying changes: packs on a full cluster, and gangs brought together."""

__all__: list[str] = []
