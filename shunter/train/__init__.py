"""The three lines a training script adds: `import`, `start`, `step`. Standard library only."""

from shunter.train.channel import EXIT_SUSPENDED

__all__ = ["EXIT_SUSPENDED"]
