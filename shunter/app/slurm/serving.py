"""From `[cluster]` and `[backend.slurm]` to the backend that `shunter serve` runs."""

import os
import secrets
import socket
from importlib.util import find_spec

from shunter.app.config.cluster_section import ClusterSection
from shunter.app.config.live import BackendSection
from shunter.app.config.live.limits import shared_limits
from shunter.app.config.live.slurm import SlurmSection
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings
from shunter.errors import ConfigError, extra_hint
from shunter.events.values.configuration_set import ConfigurationSet
from shunter.events.values.ids import NodeName

__all__ = ["check_served", "slurm_settings"]

UNTYPED = "gpu"
"""The type under which discovery counts GPUs that have none in Slurm."""


def check_served(section: BackendSection) -> None:
    """Return if what a config needs of this machine is installed.

    Raises:
        ConfigError: it says Slurm, in a mode whose libraries are not there.
    """
    if section.kind != "slurm" or section.slurm is None:
        return
    if section.slurm.mode == "pilot" and find_spec("cryptography") is None:
        raise ConfigError(f"backend.kind = 'slurm' needs cryptography: {extra_hint('slurm')}")


def slurm_settings(
    section: SlurmSection, cluster: ClusterSection, cluster_id: str, term: int
) -> SlurmSettings:
    """Return what the Slurm backend is told for a term."""
    root = os.path.abspath(section.root)  # noqa: PTH100 the path need not exist, nor be resolved
    return SlurmSettings(
        root=root,
        nodes=tuple(_server(name, where) for name, where in cluster.servers()),
        cluster_id=cluster_id,
        term=term,
        holder=secrets.token_hex(8),
        partition=section.partition,
        addresses=section.addresses or (socket.gethostname(),),
        listen=section.listen,
        account=section.account,
        qos=section.qos,
        time_limit_s=section.time_limit / 1e6,
        idle_s=section.idle_release / 1e6,
        pilots_max=section.pilots_max,
        poll_s=section.poll / 1e6,
        command_s=section.call / 1e6,
        python=section.python,
        options=section.options,
        checkpoints=f"{root}/checkpoints",
        patrol_s=section.heartbeat / 1e6,
        margin_s=section.margin / 1e6,
        **shared_limits(section),
    )


def _server(name: NodeName, where: ConfigurationSet) -> SlurmServer:
    typed = "" if where.gpu_type == UNTYPED else f"{where.gpu_type}:"
    return SlurmServer(
        name=name,
        gpus=tuple(str(number) for number in range(where.gpus)),
        cpus=tuple(range(where.cpus_milli // 1000)),
        gpu_type=str(where.gpu_type),
        gres=f"gpu:{typed}{where.gpus}" if where.gpus else "",
        memory_mb=where.memory_mb,
    )
