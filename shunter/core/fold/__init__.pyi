"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .attempts import (
    PLACES_MOST as PLACES_MOST,
    awaited as awaited,
    backoff_us as backoff_us,
    can_begin as can_begin,
    can_end as can_end,
    checkpoint_wait as checkpoint_wait,
    depart as depart,
    fall_back as fall_back,
    given_up as given_up,
    hold_wanted as hold_wanted,
    home_of as home_of,
    job_of as job_of,
    may_launch as may_launch,
    out_of_reach as out_of_reach,
    release_wait as release_wait,
    waits_for_checkpoint as waits_for_checkpoint,
    within_reach as within_reach,
)
from .decisions import SET_ASIDE as SET_ASIDE
from .execution import EARLY_US as EARLY_US
from .rules import RULES as RULES, apply as apply, replay as replay
