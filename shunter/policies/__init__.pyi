"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .fairness import (
    LADDER as LADDER,
    RHO_ONE as RHO_ONE,
    DominantShare as DominantShare,
    FinishTimeFairness as FinishTimeFairness,
)
from .families import FAMILIES as FAMILIES, Family as Family
from .fifo import Fifo as Fifo, FifoBackfill as FifoBackfill, SubmissionOrder as SubmissionOrder
from .las import AttainedService as AttainedService
from .migration import (
    BACK as BACK,
    GOALS as GOALS,
    WITHOUT_GAIN as WITHOUT_GAIN,
    MakingRoom as MakingRoom,
)
from .params import (
    Duration as Duration,
    Extra as Extra,
    MakeRoomParams as MakeRoomParams,
    PolicyParams as PolicyParams,
    duration_text as duration_text,
    duration_us as duration_us,
)
from .shortest import (
    UNKNOWN_US as UNKNOWN_US,
    RemainingService as RemainingService,
    RemainingTime as RemainingTime,
    RemainingVolume as RemainingVolume,
)
from .sizing import HighsSolver as HighsSolver, why_unusable as why_unusable
from .tables import (
    BUILTIN_HISTORIES as BUILTIN_HISTORIES,
    BUILTIN_SKEWS as BUILTIN_SKEWS,
    QUANTILES as QUANTILES,
    ModelSkew as ModelSkew,
    builtin_history as builtin_history,
    builtin_skews as builtin_skews,
    distribution_history as distribution_history,
    is_file as is_file,
    load_history as load_history,
    load_skews as load_skews,
    parse_history as parse_history,
    parse_skews as parse_skews,
)
from .tiresias import (
    INDEX_ONE as INDEX_ONE,
    LARGEST_INDEX_US as LARGEST_INDEX_US,
    FeedbackQueues as FeedbackQueues,
    QueueRanks as QueueRanks,
    ServiceSteps as ServiceSteps,
    Steps as Steps,
    Tiresias as Tiresias,
    TiresiasParams as TiresiasParams,
    expected_rest as expected_rest,
    gittins_index as gittins_index,
)
