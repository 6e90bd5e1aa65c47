"""In which order jobs of one arrival instant come: that of the simulator's heap of events.

The heap compares instants and kinds only. Which of its equals it gives first depends on all that is
in it: the arrivals still to come, which were put in at the beginning, and the leases of each round.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from shunter.events import JobId
from shunter_peers.synergy.jobs import SECOND_US

ARRIVAL: Final = 1
LEASE_END: Final = 3
ROUND: Final = 4


@dataclass(slots=True, order=True)
class _Event:
    at_us: int
    kind: int
    job_id: JobId | None = field(default=None, compare=False)


class EventQueue:
    """The events of the simulator, of which only the order is used.

    Args:
        arrivals: instants and jobs in the order of the trace.
        first_s: when the first round is played.
    """

    def __init__(self, arrivals: Iterable[tuple[int, JobId]], first_s: int) -> None:
        self._heap: list[_Event] = []
        for at_us, job_id in arrivals:
            heappush(self._heap, _Event(at_us, ARRIVAL, job_id))
        heappush(self._heap, _Event(first_s * SECOND_US, ROUND))

    def arrived(self, until_us: int) -> list[JobId]:
        """Take the arrivals up to an instant; return their jobs in order."""
        found: list[JobId] = []
        while self._heap and self._heap[0] <= _Event(until_us, ARRIVAL):
            job_id = heappop(self._heap).job_id
            if job_id is not None:
                found.append(job_id)
        return found

    def play(self, now_s: int, leases: int, next_s: int | None) -> None:
        """Take the round of an instant; put in its leases, and then the next round."""
        while heappop(self._heap) != _Event(now_s * SECOND_US, ROUND):
            pass
        if next_s is None:
            return
        for _ in range(leases):
            heappush(self._heap, _Event(next_s * SECOND_US, LEASE_END))
        heappush(self._heap, _Event(next_s * SECOND_US, ROUND))
