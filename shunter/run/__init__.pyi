"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .code_digests import source_digest as source_digest, sources_of as sources_of
from .comparison import (
    MEASURES as MEASURES,
    POLICIES as POLICIES,
    Comparison as Comparison,
    Interval as Interval,
    PolicyRuns as PolicyRuns,
    compare as compare,
    demonstrate as demonstrate,
    logs_of as logs_of,
    middle_s as middle_s,
    sentences as sentences,
    students_t as students_t,
    value_of as value_of,
)
from .parallel import Report as Report, run_all as run_all
from .recorded_policy import rebuild as rebuild, rebuild_our_own as rebuild_our_own
from .setup import (
    Setup as Setup,
    fit_to_table as fit_to_table,
    load_jobs as load_jobs,
    named_kinds as named_kinds,
    servers_out_of_range as servers_out_of_range,
    set_up as set_up,
)
from .simulation import (
    RunResult as RunResult,
    ShareGaps as ShareGaps,
    SizeGaps as SizeGaps,
    simulate as simulate,
)
from .snapshots import (
    check_outcomes as check_outcomes,
    check_state as check_state,
    past_of as past_of,
    snapshot_of as snapshot_of,
    snapshot_of_state as snapshot_of_state,
    state_of as state_of,
)
from .summary import (
    COLUMNS as COLUMNS,
    SCHEMA as SCHEMA,
    JobNumbers as JobNumbers,
    RunDocument as RunDocument,
    Times as Times,
    job_numbers as job_numbers,
    stories as stories,
    write_jobs as write_jobs,
)
from .worlds import (
    WorldParts as WorldParts,
    recorded_parts as recorded_parts,
    simulated_world as simulated_world,
)
