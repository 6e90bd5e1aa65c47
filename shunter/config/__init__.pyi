"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .cluster import (
    GPUS_MAX as GPUS_MAX,
    ClusterSection as ClusterSection,
    CpuGroups as CpuGroups,
    GpuGroups as GpuGroups,
    NodeGroup as NodeGroup,
    Parts as Parts,
    expanded_hostlist as expanded_hostlist,
    joined_level as joined_level,
    levels_of as levels_of,
)
from .inputs import (
    SwitchGroup as SwitchGroup,
    read_cluster as read_cluster,
    read_text as read_text,
    read_throughputs as read_throughputs,
)
from .keys import (
    Fault as Fault,
    config_error as config_error,
    faults_of as faults_of,
    parse_path as parse_path,
    path_text as path_text,
)
from .layers import (
    Layers as Layers,
    lines_of_keys as lines_of_keys,
    parse_value as parse_value,
    read_layers as read_layers,
)
from .live import (
    BackendSection as BackendSection,
    LocalSection as LocalSection,
    ServerSection as ServerSection,
    SlurmSection as SlurmSection,
    SshHostSection as SshHostSection,
    SshSection as SshSection,
    shared_limits as shared_limits,
)
from .loading import (
    LoadedConfig as LoadedConfig,
    effective as effective,
    json_schema as json_schema,
    load_config as load_config,
    make_config as make_config,
    refused_at_events as refused_at_events,
    settings as settings,
)
from .model import (
    DEFAULT_QUEUE as DEFAULT_QUEUE,
    Config as Config,
    LogSection as LogSection,
    unsized as unsized,
)
from .policy import PolicySection as PolicySection, SlicingSection as SlicingSection
from .policy_plugins import (
    POLICIES as POLICIES,
    built as built,
    completed as completed,
    equipped as equipped,
    find_policy as find_policy,
    informed as informed,
)
from .recorded import (
    REACTOR as REACTOR,
    PolicyRuntime as PolicyRuntime,
    recorded_runtime as recorded_runtime,
    recorded_sensitivity as recorded_sensitivity,
    recorded_throughputs as recorded_throughputs,
)
from .resolved import (
    LEARNS_TOLERANCE as LEARNS_TOLERANCE,
    PROBE_LIVE_LEAST_US as PROBE_LIVE_LEAST_US,
    learns_tolerance as learns_tolerance,
    policy_runtime as policy_runtime,
    record_of as record_of,
    refuse_callers as refuse_callers,
    refuse_misfits as refuse_misfits,
)
from .section import (
    Positive as Positive,
    Section as Section,
    Share as Share,
    Span as Span,
    Stretch as Stretch,
)
from .simulation import (
    WORLDS as WORLDS,
    CostsSection as CostsSection,
    Reactions as Reactions,
    SimulationSection as SimulationSection,
    world_around as world_around,
)
from .workload import NO_WORKLOAD as NO_WORKLOAD, ONE_OF as ONE_OF
