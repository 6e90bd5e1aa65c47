"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .backends import (
    as_wanted as as_wanted,
    refuse_other_attempts as refuse_other_attempts,
    slicing_of as slicing_of,
)
from .cluster_identity import (
    History as History,
    Identity as Identity,
    read_history as read_history,
    watch_clock as watch_clock,
)
from .commands import Commands as Commands, Stamped as Stamped
from .feed import Feed as Feed
from .gpu_maps import (
    FoundMap as FoundMap,
    Place as Place,
    ServerMap as ServerMap,
    ToldBySlurm as ToldBySlurm,
    discover_maps as discover_maps,
    found_map as found_map,
    found_map_of as found_map_of,
    kept as kept,
    mapped as mapped,
    placed as placed,
    rack_notes as rack_notes,
    server_map as server_map,
)
from .host_settings import (
    access_of as access_of,
    hosts_of as hosts_of,
    ssh_settings as ssh_settings,
)
from .log_maintenance import (
    SPAN_EVENTS as SPAN_EVENTS,
    LogMaintenance as LogMaintenance,
    keep_for as keep_for,
    superseded as superseded,
)
from .notices import TellOperator as TellOperator
from .past_jobs import Groups as Groups, LivePastJobs as LivePastJobs
from .policy import (
    REPLY_BYTES_MOST as REPLY_BYTES_MOST,
    START as START,
    START_S as START_S,
    PolicyProxy as PolicyProxy,
    Replies as Replies,
)
from .recovery import Adoption as Adoption, holding as holding, recovery_of as recovery_of
from .requests import Caller as Caller, Submission as Submission, no_such_job as no_such_job
from .site import Planning as Planning, Site as Site
from .slurm import (
    CRYPTOGRAPHY_LEAST as CRYPTOGRAPHY_LEAST,
    as_first_asked as as_first_asked,
    asked_of_slurm as asked_of_slurm,
    check_served as check_served,
    keep_mode as keep_mode,
    places_in as places_in,
    read_noted_wirings as read_noted_wirings,
    served_notes as served_notes,
    tell_silence as tell_silence,
)
from .startup import open_site as open_site, term_begin as term_begin
