"""The Synergy simulator once more, and its job lists played by Shunter."""

__all__: list[str] = []
