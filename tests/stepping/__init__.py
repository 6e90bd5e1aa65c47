"""A second opinion on every plan: the greedy of the papers, from scratch at every round."""

__all__: list[str] = []
