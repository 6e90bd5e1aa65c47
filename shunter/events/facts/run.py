"""Facts about the scheduler's own life: starts, stops, its clock, its configuration."""

from collections.abc import Mapping
from typing import TypeAlias

from shunter.events.values.fact import event
from shunter.events.values.fact_class import COMMANDED, OBSERVED, KindClass


@event
class SchedulerStarted:
    """Opens a term: who decides from here on, by which configuration and input.

    `config` is the resolved configuration as canonical JSON without log, server and output
    options; `digests` name the input files by content: (what, digest) pairs.
    """

    at_us: int
    term: int
    version: str
    policy: str
    policy_version: str
    seed: int
    config: str
    digests: tuple[tuple[str, str], ...] = ()
    cluster_id: str = ""
    simulated: bool = False


@event
class ConfigChanged:
    """The configuration was replaced while running; `keys` are those that differ."""

    at_us: int
    config: str
    keys: tuple[str, ...]
    policy: str
    policy_version: str


@event
class ClockStepped:
    """The wall clock jumped; the scheduler's own clock did not follow."""

    at_us: int
    by_us: int


@event
class SegmentSealed:
    """Frames up to `last_seq` were moved into a compressed, read-only segment."""

    at_us: int
    first_seq: int
    last_seq: int
    digest: str


@event
class SchedulerStopped:
    """Closes a term on purpose; a term without it ended in a crash."""

    at_us: int
    cause: str


@event
class EventsLost:
    """An operator goes on with a log that has lost its last events.

    `first_seq` to `last_seq` are their sequence numbers; the first of them is given again, to the
    start of the term after the loss. Ids up to `last_number` (as of j12) may have been theirs.
    """

    at_us: int
    first_seq: int
    last_seq: int
    last_number: int


RunEvent: TypeAlias = (
    SchedulerStarted | ConfigChanged | ClockStepped | SegmentSealed | SchedulerStopped | EventsLost
)

CLASSES: Mapping[type, KindClass] = {
    SchedulerStarted: KindClass(COMMANDED),
    ConfigChanged: KindClass(COMMANDED),
    ClockStepped: KindClass(OBSERVED),
    SegmentSealed: KindClass(OBSERVED),
    SchedulerStopped: KindClass(COMMANDED),
    EventsLost: KindClass(COMMANDED),
}
"""Where facts of the scheduler itself come from."""
