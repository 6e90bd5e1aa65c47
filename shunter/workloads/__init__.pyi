"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .derive import (
    GPU_S_MAX as GPU_S_MAX,
    GPU_TYPES as GPU_TYPES,
    gavel_table as gavel_table,
    main as main,
)
from .factors import (
    BUILTIN_FACTORS as BUILTIN_FACTORS,
    FactorFile as FactorFile,
    load_factors as load_factors,
)
from .formats import TraceFormat as TraceFormat, TraceText as TraceText
from .generators import KINDS as KINDS, Choices as Choices, generate_trace as generate_trace
from .job_statistics import (
    CPUS_PER_GPU as CPUS_PER_GPU,
    GAVEL_MODELS as GAVEL_MODELS,
    LIMIT_USE_MIN as LIMIT_USE_MIN,
    LIMITS_S as LIMITS_S,
    TIRESIAS_MODELS as TIRESIAS_MODELS,
    EndShares as EndShares,
    Quantiles as Quantiles,
    diurnal_arrivals_us as diurnal_arrivals_us,
    gpu_s_mean as gpu_s_mean,
    philly_table_bytes as philly_table_bytes,
    poisson_arrivals_us as poisson_arrivals_us,
    tiresias_table_bytes as tiresias_table_bytes,
)
from .loading import (
    load_trace as load_trace,
    place_in_trace as place_in_trace,
    read_file as read_file,
)
from .profiling import (
    PERCENTS as PERCENTS,
    CpuSearch as CpuSearch,
    MinioModel as MinioModel,
    Profile as Profile,
    RelativeProfile as RelativeProfile,
    table_document as table_document,
)
from .sensitivity import (
    BUILTIN_SENSITIVITY as BUILTIN_SENSITIVITY,
    SensitivityFile as SensitivityFile,
    builtin_sensitivity as builtin_sensitivity,
    compact_sensitivity as compact_sensitivity,
    load_sensitivity as load_sensitivity,
    parse_compact_sensitivity as parse_compact_sensitivity,
    published_models as published_models,
)
from .throughputs import (
    BASE_TYPE as BASE_TYPE,
    BUILTIN_THROUGHPUTS as BUILTIN_THROUGHPUTS,
    ThroughputFile as ThroughputFile,
    builtin_throughputs as builtin_throughputs,
    compact_throughputs as compact_throughputs,
    load_throughputs as load_throughputs,
    parse_compact_throughputs as parse_compact_throughputs,
    parse_gavel_json as parse_gavel_json,
)
from .trace import (
    Fault as Fault,
    Finding as Finding,
    Inspection as Inspection,
    JobEnd as JobEnd,
    QualityReport as QualityReport,
    SizeClass as SizeClass,
    Trace as Trace,
    TraceDescription as TraceDescription,
    TraceJob as TraceJob,
    describe_trace as describe_trace,
    number_fault as number_fault,
)
