"""Claims on a few kinds of jobs and three GPU types, for problems of every form."""

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId
from shunter.policies.gavel import Demands, JobRequest

K80, P100, V100 = GpuType("k80"), GpuType("p100"), GpuType("v100")
TYPES = (K80, P100, V100)
A, B, C, WIDE, NOWHERE = (
    JobKind("a", 1),
    JobKind("b", 1),
    JobKind("c", 1),
    JobKind("a", 2),
    JobKind("n", 1),
)
RATES = {
    A: (1.0, 2.0, 4.0),
    B: (3.0, 4.0, 5.0),
    C: (0.0, 1.0, 7.0),
    WIDE: (2.0, 3.5, 7.0),
    NOWHERE: (0.0, 0.0, 0.0),
}
KEPT = {(A, A): (0.5, 0.5), (A, B): (0.75, 0.625), (B, B): (0.875, 0.875), (A, C): (0.25, 0.5)}


def _paired(place: int) -> dict[tuple[JobKind, JobKind], tuple[float, float]]:
    found = {}
    for (one, two), (mine, theirs) in KEPT.items():
        rates = RATES[one][place] * mine, RATES[two][place] * theirs
        found[one, two], found[two, one] = rates, (rates[1], rates[0])
    return found


TABLE = ThroughputTable(
    {name: {kind: row[place] for kind, row in RATES.items()} for place, name in enumerate(TYPES)},
    {name: _paired(place) for place, name in enumerate(TYPES)},
)


def demands(
    *kinds: JobKind, room: tuple[int, int, int] = (1, 1, 1), weighed: bool = True
) -> Demands:
    """Return claims of these kinds, each with other steps left and of another age."""
    requests = [
        JobRequest(
            JobId(str(number)),
            kind,
            left=1000 * (number + 1),
            age_s=100.0 * number,
            weight=1.0 + number % 2 if weighed else 1.0,
        )
        for number, kind in enumerate(kinds)
    ]
    return Demands(tuple(requests), dict(zip(TYPES, room, strict=True)), TABLE)
