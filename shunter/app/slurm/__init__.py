"""A Slurm cluster as an operator meets it: in a config, at a probe, in a check."""

__all__: list[str] = []
