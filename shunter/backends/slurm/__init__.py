"""Jobs on an existing Slurm cluster: pilots hold its nodes, and Shunter schedules inside.

Nothing is imported here: certificates need the extra `slurm`, and what waits in Slurm's queue does
not.
"""

__all__: list[str] = []
