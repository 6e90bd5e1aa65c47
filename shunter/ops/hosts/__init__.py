"""Servers reached over SSH, as an operator meets them: in a config, at a probe, in a check."""

__all__: list[str] = []
