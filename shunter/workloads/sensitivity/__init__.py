"""Tables of sensitivity to CPUs and memory: read, written, and made from measurements."""

from shunter.workloads.sensitivity.compact import compact_form, parse_compact
from shunter.workloads.sensitivity.cpu_search import CpuSearch
from shunter.workloads.sensitivity.minio import MinioModel
from shunter.workloads.sensitivity.profiling import Profile, RelativeProfile
from shunter.workloads.sensitivity.reading import (
    BUILTIN_SENSITIVITY,
    SensitivityFile,
    builtin_sensitivity,
    load_sensitivity,
)
from shunter.workloads.sensitivity.writing import table_document

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
