"""Pilots: long Slurm jobs that hold nodes, inside which Shunter schedules its own."""

__all__: list[str] = []
