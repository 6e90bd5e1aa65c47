"""What a backend on Slurm is told of the demand, and the log of Slurm's nodes."""

__all__: list[str] = []
