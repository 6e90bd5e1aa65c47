"""Thin callbacks for trainers of other libraries; each file imports its library itself."""

from __future__ import annotations

__all__: list[str] = []
