"""What backends share whose attempts run under supervisors, on this machine or a remote one."""

__all__: list[str] = []
