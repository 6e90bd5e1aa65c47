"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .doctor import (
    PILOT_KINDS as PILOT_KINDS,
    examined as examined,
    kept_log as kept_log,
    moved_by_pilots as moved_by_pilots,
    sockets as sockets,
)
from .first_config import local_config as local_config
from .live_profiling import (
    BatchRate as BatchRate,
    LiveMachine as LiveMachine,
    SshServer as SshServer,
    ThisServer as ThisServer,
    drop_from_cache as drop_from_cache,
    last_lines as last_lines,
    measuring_folder as measuring_folder,
    remove_abandoned as remove_abandoned,
    ssh_server as ssh_server,
    this_server as this_server,
)
from .machine_checks import (
    Looked as Looked,
    disks as disks,
    held_shares as held_shares,
    shares as shares,
    sizes as sizes,
    sqlite as sqlite,
    users as users,
)
from .profiling import (
    CLAIM as CLAIM,
    Cell as Cell,
    JobFile as JobFile,
    Machine as Machine,
    Point as Point,
    Profiled as Profiled,
    profiled as profiled,
    read_job_file as read_job_file,
)
from .simulated_profiling import SimulatedMachine as SimulatedMachine
from .slurm_site import (
    SlurmInventory as SlurmInventory,
    discovered as discovered,
    ending as ending,
    scheduling as scheduling,
    slurm as slurm,
    slurm_config as slurm_config,
)
from .ssh_hosts import (
    findings_of as findings_of,
    halves as halves,
    map_findings as map_findings,
    parsed_host as parsed_host,
    ssh_config as ssh_config,
)
