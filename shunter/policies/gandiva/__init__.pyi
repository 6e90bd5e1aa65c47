"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .affinity import FoundPlace as FoundPlace, Placer as Placer
from .grow_shrink import IdleServers as IdleServers, PlannedSizes as PlannedSizes
from .policy import SAMPLES_IN_PROBE as SAMPLES_IN_PROBE, Gandiva as Gandiva
