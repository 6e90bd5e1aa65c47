"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .attempts import (
    Observed as Observed,
    ObservedAttempt as ObservedAttempt,
    ObservedJob as ObservedJob,
    Pace as Pace,
    checkpoint_interval_us as checkpoint_interval_us,
    mean_speed as mean_speed,
    observe_log as observe_log,
)
from .costs import (
    LEAST_US as LEAST_US,
    Fitted as Fitted,
    FittedKind as FittedKind,
    Launch as Launch,
    Slowed as Slowed,
    config_text as config_text,
    fit_costs as fit_costs,
    fit_document as fit_document,
    left_out as left_out,
    observed_trace as observed_trace,
    rates_document as rates_document,
    slowed_us as slowed_us,
    uneven_starts as uneven_starts,
    without_rates as without_rates,
    work_us as work_us,
)
from .diff import (
    Fact as Fact,
    LogDiff as LogDiff,
    changed_keys as changed_keys,
    diff_logs as diff_logs,
)
from .divergence import Divergence as Divergence
from .job_history import (
    ENDED_MOST as ENDED_MOST,
    AttemptTurns as AttemptTurns,
    Dated as Dated,
    JobHistories as JobHistories,
    JobHistory as JobHistory,
    date_or_none as date_or_none,
    read_histories as read_histories,
)
from .log_reading import (
    end_of_decision as end_of_decision,
    first_start as first_start,
    fold_events as fold_events,
    fold_log as fold_log,
    is_part as is_part,
    place_of as place_of,
    seq_at as seq_at,
    seq_of as seq_of,
    state_at as state_at,
)
from .parquet import TABLES as TABLES, write_tables as write_tables
from .perfetto import write_perfetto as write_perfetto
from .playback import (
    event_in_words as event_in_words,
    parse as parse,
    play as play,
    speed_of as speed_of,
)
from .reason_words import REASONS as REASONS
from .recorded_terms import Rebuild as Rebuild, origin_of as origin_of
from .report import (
    PARTS as PARTS,
    Curves as Curves,
    Slice as Slice,
    data_of as data_of,
    gantt as gantt,
    jain_index as jain_index,
    page_of as page_of,
    report_document as report_document,
    run_document as run_document,
)
from .run_history import (
    LogStatistics as LogStatistics,
    Spot as Spot,
    log_statistics as log_statistics,
)
from .scores import (
    decision_score as decision_score,
    gpu_time_in_words as gpu_time_in_words,
    measures_in as measures_in,
    ordinal_in_words as ordinal_in_words,
    score_in_words as score_in_words,
    used_in_words as used_in_words,
)
from .staged_terms import Term as Term, classes_at as classes_at
from .verification import (
    Verdict as Verdict,
    Verifier as Verifier,
    same_targets as same_targets,
    verify_log as verify_log,
)
from .waits import (
    JOB_STATES as JOB_STATES,
    holding_back as holding_back,
    job_state as job_state,
    most_free as most_free,
    stands_still as stands_still,
    state_document as state_document,
    told_apart as told_apart,
    wait_of as wait_of,
    wait_to_count as wait_to_count,
)
from .words import (
    allocation_in_words as allocation_in_words,
    because_in_words as because_in_words,
    clock as clock,
    demand_in_words as demand_in_words,
    down_in_words as down_in_words,
    fact_in_words as fact_in_words,
    gpus_in_words as gpus_in_words,
    held_by_others as held_by_others,
    instant_us as instant_us,
    names_partners as names_partners,
    refuse_impossible as refuse_impossible,
    rejection_in_words as rejection_in_words,
    span as span,
    span_up as span_up,
)
