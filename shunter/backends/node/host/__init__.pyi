"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .accounts import as_user as as_user
from .base_folder import unsafe as unsafe
from .checkpoint_transfer import (
    COMMIT as COMMIT,
    TRANSFERRED as TRANSFERRED,
    fields_of as fields_of,
)
from .file_trees import (
    DEPTH_MAX as DEPTH_MAX,
    END as END,
    ENTRIES_MAX as ENTRIES_MAX,
    LENGTH_BYTES as LENGTH_BYTES,
    MODE_BITS as MODE_BITS,
    PATH_BYTES_MAX as PATH_BYTES_MAX,
    PIECE as PIECE,
    RECORD_BYTES_MAX as RECORD_BYTES_MAX,
    TOO_MUCH as TOO_MUCH,
    Entry as Entry,
    Kind as Kind,
    ListBound as ListBound,
    TooMuchError as TooMuchError,
    digest_of as digest_of,
    listings as listings,
    opened as opened,
    packed as packed,
    path_in_record as path_in_record,
    pieces as pieces,
    rows_of as rows_of,
    unpacked as unpacked,
)
from .gpus import (
    GpuReadings as GpuReadings,
    Readings as Readings,
    gpus_in as gpus_in,
    nvml_gpus as nvml_gpus,
    read_gpus as read_gpus,
)
from .pruning import (
    Ages as Ages,
    Removed as Removed,
    by_age as by_age,
    remove_attempts as remove_attempts,
)
from .wiring import (
    NOTED as NOTED,
    PROGRAMS as PROGRAMS,
    TopologyError as TopologyError,
    WiringReport as WiringReport,
    cpus_in as cpus_in,
    matrix_in as matrix_in,
    note_wiring as note_wiring,
    numa_node as numa_node,
    report_by_hwloc as report_by_hwloc,
    report_in as report_in,
)
