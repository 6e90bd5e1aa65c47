"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .measures import Measure as Measure, Measured as Measured
from .policy import RankedPolicy as RankedPolicy
from .ranking import (
    FIRST as FIRST,
    LAST as LAST,
    LEVELS_MOST as LEVELS_MOST,
    NO_POOL as NO_POOL,
    ORDINAL_BITS as ORDINAL_BITS,
    PRIORITY_MOST as PRIORITY_MOST,
    RANK_MOST as RANK_MOST,
    Aged as Aged,
    Entry as Entry,
    Index as Index,
    IndexDefaults as IndexDefaults,
    Misfit as Misfit,
    Note as Note,
    NotedRanks as NotedRanks,
    Notes as Notes,
    RankedUsage as RankedUsage,
    Ranking as Ranking,
    Remembering as Remembering,
    Weighing as Weighing,
    band_of as band_of,
    drift as drift,
    ordinal_of as ordinal_of,
    pack as pack,
    rank_of as rank_of,
)
