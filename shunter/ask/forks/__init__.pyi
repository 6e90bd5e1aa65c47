"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .counterfactual_starts import (
    Counterfactual as Counterfactual,
    Counterfactuals as Counterfactuals,
    counterfactuals as counterfactuals,
    recorded_world_with as recorded_world_with,
    starts_if as starts_if,
)
from .forecast_process import (
    BOOT as BOOT,
    Found as Found,
    Held as Held,
    Kept as Kept,
    Problem as Problem,
    Question as Question,
    StartsIf as StartsIf,
    Tried as Tried,
    die_with_parent as die_with_parent,
)
from .forecasts import (
    PAST_LEAST as PAST_LEAST,
    Forecasting as Forecasting,
    Quantiles as Quantiles,
    answer as answer,
    drawn_arrivals as drawn_arrivals,
    held_at as held_at,
    kept_of as kept_of,
    past_moments as past_moments,
    quantile as quantile,
)
from .fork import (
    NOBODY_CALLS as NOBODY_CALLS,
    ForkChange as ForkChange,
    ForkPoint as ForkPoint,
    MakeWorld as MakeWorld,
    Standing as Standing,
    Wishes as Wishes,
    end_of_instant as end_of_instant,
    fork_at as fork_at,
    fork_point as fork_point,
    other_start as other_start,
    standing_at as standing_at,
)
from .future import (
    Future as Future,
    measure as measure,
    measured_parts as measured_parts,
    read_future as read_future,
)
from .inevitable_outcomes import Harm as Harm, normal_wait as normal_wait
from .inevitable_waits import (
    SPOTS as SPOTS,
    TRIED_MOST as TRIED_MOST,
    PlacedFirst as PlacedFirst,
    Search as Search,
    find_last as find_last,
    inevitable as inevitable,
)
from .remaining import (
    UNSEEN_US as UNSEEN_US,
    History as History,
    Worked as Worked,
    WorkEstimates as WorkEstimates,
    read_history as read_history,
    resampled as resampled,
)
from .scenario import (
    Numbers as Numbers,
    Scenario as Scenario,
    ScenarioResult as ScenarioResult,
    Staged as Staged,
    rerun_to as rerun_to,
    run_scenario as run_scenario,
    what_if as what_if,
)
