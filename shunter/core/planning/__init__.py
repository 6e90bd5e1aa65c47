"""From a view to a checked plan: what a policy wants, and what of it may be done."""

__all__: list[str] = []
