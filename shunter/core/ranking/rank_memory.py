"""What an index remembers of jobs, where their state alone does not say where they stand.

Multi-level feedback queues need it: when a job entered its queue, and what it had used and waited
when it was last promoted (Gu et al., Tiresias, NSDI 2019). So do policies that learn: what the
jobs used that have finished.
"""

from dataclasses import dataclass, field

from shunter.events.values.fact import record
from shunter.events.values.ids import JobId


@record
class Note:
    """A job in a feedback queue.

    It entered its queue at `entered_us`. `service_us` and `held_us` are what it had attained when
    it was last promoted, in GPU-microseconds and microseconds; `waited_us` is how long it has
    waited since, up to the stretch that began at `waits_from_us` (None: none counts now).
    """

    entered_us: int
    queue: int = 0
    service_us: int = 0
    held_us: int = 0
    waited_us: int = 0
    waits_from_us: int | None = None


@dataclass(slots=True)
class Notes:
    """The notes of all jobs that have not ended.

    `levels` are those of the jobs that have risen by waiting, and of those on their turn.
    `finished` is the service of each job that finished, in GPU-microseconds and in the order of
    their ends; the first `learned` of them are in use.
    """

    jobs: dict[JobId, Note] = field(default_factory=dict)
    levels: dict[JobId, int] = field(default_factory=dict)
    finished: list[int] = field(default_factory=list)
    learned: int = 0
