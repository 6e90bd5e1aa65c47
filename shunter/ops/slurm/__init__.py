"""Slurm before a daemon runs: what it has, what `doctor` checks, the config of `init`."""
