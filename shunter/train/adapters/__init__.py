"""Thin callbacks for trainers of other libraries; each file imports its library itself."""

__all__: list[str] = []
