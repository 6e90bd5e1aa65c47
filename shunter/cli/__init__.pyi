"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from . import output as output
from .answers import (
    age as age,
    clause as clause,
    end_of as end_of,
    ended_by as ended_by,
    forecast_trust as forecast_trust,
    local_time as local_time,
    one_line as one_line,
    print_rows as print_rows,
    printable as printable,
)
from .application import HEADINGS as HEADINGS, app as app
from .compare import print_comparison as print_comparison
from .jobs import explained as explained
from .nodes import picture_of as picture_of
from .options import (
    Json as Json,
    take_plain_values as take_plain_values,
    takes_options as takes_options,
)
from .output import Column as Column
from .serve import oracle_note as oracle_note
from .start import main as main
from .submit import (
    SCRIPT_BYTES_MOST as SCRIPT_BYTES_MOST,
    command_of as command_of,
    name_of as name_of,
    read_script as read_script,
)
from .units import (
    NOTHING as NOTHING,
    array_of as array_of,
    dependency_of as dependency_of,
    duration as duration,
    durations_apart as durations_apart,
    memory_mb as memory_mb,
    number as number,
    point_of as point_of,
    seconds as seconds,
    since_s as since_s,
)
from .up import unit_text as unit_text
