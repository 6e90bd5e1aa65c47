"""The three lines a training script adds: `import`, `start`, `step`. Standard library only."""

from shunter.train.channel import EXIT_SUSPENDED
from shunter.train.device import device
from shunter.train.run import Run, start
from shunter.train.shards import Shards

__all__ = ["EXIT_SUSPENDED", "Run", "Shards", "device", "start"]
