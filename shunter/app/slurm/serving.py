"""From `[cluster]` and `[backend.slurm]` to the backend that `shunter serve` runs."""

import os
import secrets
import socket
from importlib.util import find_spec
from pathlib import Path

from shunter.app.config.cluster_section import ClusterSection
from shunter.app.config.live import BackendSection
from shunter.app.config.live.limits import shared_limits
from shunter.app.config.live.slurm import SlurmSection
from shunter.backends.node.batch.claims import WITHDRAWN, claimed_by
from shunter.backends.node.records import get, put
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings
from shunter.errors import ConfigError, extra_hint
from shunter.events.values.configuration_set import ConfigurationSet
from shunter.events.values.ids import NodeName

__all__ = ["check_served", "keep_mode", "slurm_settings"]

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


def keep_mode(root: str, mode: str) -> None:
    """Note the mode of a cluster; refuse another one while attempts may run.

    Each mode has its attempts in folders of its own, and would take the other's for gone.

    Raises:
        ConfigError: attempts of the other mode have not ended.
        OSError: the folder cannot be used.
    """
    path = f"{root}/mode"
    # Earlier versions knew pilots only, and named no mode.
    unnamed = "pilot" if Path(root, "pilots").is_dir() else mode
    before = (get(path) or {}).get("mode", unnamed)
    if before != mode:
        left = _not_ended(root, str(before))
        if left:
            raise ConfigError(
                f"backend.slurm.mode = '{mode}': attempt {left} of mode '{before}' has not ended "
                f"by its records below {root}: serve it with that mode until it has; or remove "
                f"{path} if nothing of it runs"
            )
    put(path, {"mode": mode})


def _not_ended(root: str, mode: str) -> str:
    """Return an attempt of a mode that has begun, or may, and has not ended."""
    pattern = "jobs/*/*/order" if mode == "per-job" else "nodes/*/clusters/*/jobs/*/*/started"
    for found in sorted(Path(root).glob(pattern)):
        folder = found.parent
        if not (folder / "status").exists() and claimed_by(str(folder)) != WITHDRAWN:
            return f"{folder.parent.name}/{folder.name}"
    return ""


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
