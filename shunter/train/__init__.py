"""The three lines a training script adds: `import`, `start`, `step`. Standard library only."""

from shunter.train.batches import Shards
from shunter.train.channel import EXIT_SUSPENDED
from shunter.train.run import Run, start
from shunter.train.turns import device

__all__ = ["EXIT_SUSPENDED", "Run", "Shards", "device", "start"]
