"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .backend import SimulatedBackend as SimulatedBackend
from .failures import (
    NO_FAILURES as NO_FAILURES,
    Failures as Failures,
    NodeChange as NodeChange,
    RecordedFailures as RecordedFailures,
)
from .lease import (
    PLAIN_LEASE as PLAIN_LEASE,
    Credit as Credit,
    EndSeen as EndSeen,
    Lease as Lease,
    Progress as Progress,
    RoundEnds as RoundEnds,
    StepRate as StepRate,
)
from .resuming import Resumed as Resumed, TotalWork as TotalWork
from .turns import NO_SLICING as NO_SLICING, MemoryMoves as MemoryMoves, Slicing as Slicing
from .work import (
    EXIT_CODES as EXIT_CODES,
    NO_COSTS as NO_COSTS,
    Arrival as Arrival,
    Costs as Costs,
    transfer_us as transfer_us,
    transfers_us as transfers_us,
)
from .world import NO_SAMPLES as NO_SAMPLES, Samples as Samples
