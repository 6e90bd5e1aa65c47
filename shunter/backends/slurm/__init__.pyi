"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .answers import (
    UNTYPED as UNTYPED,
    NetworkSwitch as NetworkSwitch,
    Partition as Partition,
    QueuedJob as QueuedJob,
    Reservation as Reservation,
    SlurmJob as SlurmJob,
    SlurmNode as SlurmNode,
    duration as duration,
    expanded as expanded,
    gpu_indices as gpu_indices,
    gpus_in_gres as gpus_in_gres,
    instant_s as instant_s,
    limit_s as limit_s,
    past_jobs as past_jobs,
    queue_format as queue_format,
    queued_jobs as queued_jobs,
    read_nodes as read_nodes,
    read_partitions as read_partitions,
    read_reservations as read_reservations,
    read_settings as read_settings,
    read_switches as read_switches,
    whole as whole,
)
from .commands import (
    CommandAnswer as CommandAnswer,
    Slurm as Slurm,
    reason_in_words as reason_in_words,
    submit_limit_in as submit_limit_in,
)
from .job_attempts import (
    Accounting as Accounting,
    JobAttempt as JobAttempt,
    Key as Key,
    Patience as Patience,
    QueueView as QueueView,
    attempt_job_name as attempt_job_name,
    job_options as job_options,
    job_script as job_script,
    key_in as key_in,
)
from .job_backend import JobBackend as JobBackend, TakenResources as TakenResources
from .job_session import JobRecords as JobRecords, Submissions as Submissions
from .node_service import (
    Node as Node,
    NodeListing as NodeListing,
    NodeService as NodeService,
    SubmitRefusals as SubmitRefusals,
    least_s as least_s,
    reservation_in as reservation_in,
    reservations_by_node as reservations_by_node,
)
from .pilot_channel import (
    ClusterAuthority as ClusterAuthority,
    ListenerSettings as ListenerSettings,
    PilotCertificate as PilotCertificate,
    PilotHello as PilotHello,
    PilotListener as PilotListener,
    PilotStream as PilotStream,
    read_certificate as read_certificate,
)
from .pilot_fleet import (
    SETTLED_S as SETTLED_S,
    JobsOn as JobsOn,
    PilotBackend as PilotBackend,
    PilotFleet as PilotFleet,
    PilotTransport as PilotTransport,
    pilot_options as pilot_options,
    pilot_script as pilot_script,
)
from .pilots import (
    AllocationLimits as AllocationLimits,
    AllocationView as AllocationView,
    Decisions as Decisions,
    GpuRequest as GpuRequest,
    Phase as Phase,
    Pilot as Pilot,
    announced_end as announced_end,
    decide as decide,
)
from .settings import (
    SlurmServer as SlurmServer,
    SlurmSettings as SlurmSettings,
    name_in as name_in,
    queue_options as queue_options,
    slurm_job_name as slurm_job_name,
)
