"""A Slurm cluster as it is seen by its own commands: queue, nodes, partitions, submissions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
