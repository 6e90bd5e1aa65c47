"""State, fold, view, plan, approver and round loop: the scheduler without the outside world."""

__all__: list[str] = []
