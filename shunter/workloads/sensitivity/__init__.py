"""Tables of sensitivity to CPUs and memory: read, written, and made from measurements."""

from shunter.workloads.sensitivity.compact import compact_form, parse_compact
from shunter.workloads.sensitivity.profiling import (
    CpuSearch,
    MinioModel,
    Profile,
    RelativeProfile,
    table_document,
)
from shunter.workloads.sensitivity.reading import (
    BUILTIN_SENSITIVITY,
    SensitivityFile,
    builtin_sensitivity,
    load_sensitivity,
)

__all__ = [
    "BUILTIN_SENSITIVITY",
    "CpuSearch",
    "MinioModel",
    "Profile",
    "RelativeProfile",
    "SensitivityFile",
    "builtin_sensitivity",
    "compact_form",
    "load_sensitivity",
    "parse_compact",
    "table_document",
]
