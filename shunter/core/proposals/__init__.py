"""Job schedulers that propose gangs from stale views, and the approver of what they propose."""

__all__: list[str] = []
