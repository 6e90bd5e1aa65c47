"""The daemon's side of processes on servers: agents, gangs of supervisors, checkpoints."""

__all__: list[str] = []
