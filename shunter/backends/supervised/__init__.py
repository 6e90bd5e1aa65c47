"""What backends share whose attempts run under supervisors, on this machine or far away."""

__all__: list[str] = []
