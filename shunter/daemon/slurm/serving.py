"""From `[cluster]` and `[backend.slurm]` to the backend that `shunter serve` runs."""

import os
import secrets
import socket
from collections.abc import Collection
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from shunter.backends.node.batch import WITHDRAWN, claimed_by
from shunter.backends.node.records import get, put
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings
from shunter.config.cluster_section import ClusterSection
from shunter.config.live import BackendSection
from shunter.config.live.limits import shared_limits
from shunter.config.live.slurm import SlurmSection
from shunter.config.loading import LoadedConfig
from shunter.errors import ConfigError, extra_hint
from shunter.events.values import ConfigurationSet, JobId, NodeName

CRYPTOGRAPHY_LEAST = 46
"""The oldest version that the extra `slurm` takes, a whole number."""
UNTYPED = "gpu"
"""The type under which discovery counts GPUs that have none in Slurm."""


def check_served(section: BackendSection) -> None:
    """Return if what a config needs of this machine is installed.

    Raises:
        ConfigError: it says Slurm, in a mode whose libraries are not there.
    """
    if section.kind != "slurm" or section.slurm is None:
        return
    if section.slurm.mode != "pilot":
        return
    needs = f"backend.slurm.mode = 'pilot' needs cryptography {CRYPTOGRAPHY_LEAST} or later"
    mend = f"{extra_hint('slurm')}; mode = 'per-job' needs none"
    if find_spec("cryptography") is None:
        raise ConfigError(f"{needs}: {mend}")
    found = version("cryptography")
    if int(found.partition(".")[0]) < CRYPTOGRAPHY_LEAST:
        raise ConfigError(f"{needs}, and {found} is installed: {mend}")


def served_notes(loaded: LoadedConfig) -> list[str]:
    """Return what a config says that Slurm will not do in per-job mode."""
    config, notes = loaded.config, list[str]()
    if not config.backend.launches_wait:
        return notes
    if getattr(loaded.chosen_params, "space_sharing", False):
        notes.append(
            f"policy.params.{config.policy.name}.space_sharing: with backend.slurm.mode = "
            "'per-job' no two jobs share a GPU: of those that the policy puts together Slurm gives "
            "each GPUs of its own, or has it wait; use mode = 'pilot', or take space_sharing out"
        )
    vague = [name for name, where in config.cluster.servers() if not where.cpus_milli]
    if vague:
        more = f" and {len(vague) - 1} more" if len(vague) > 1 else ""
        notes.append(
            f"cluster.nodes: no cpus of {vague[0]}{more}: what other people's jobs hold of them "
            "is not seen, and a job may wait in Slurm for it; name them, as `shunter init --slurm` "
            "does"
        )
    return notes


def keep_mode(root: str, mode: str, held: Collection[tuple[JobId, int]]) -> None:
    """Note the mode of a cluster; refuse another one while attempts may run.

    Each mode has its attempts in folders of its own, and would take the other's for gone.

    Args:
        root: the folder of the cluster.
        mode: what it is to be served with.
        held: the attempts that hold GPUs by the log; of others nothing runs, whatever they left.

    Raises:
        ConfigError: attempts of the other mode have not ended.
        OSError: the folder cannot be used.
    """
    path = f"{root}/mode"
    # Earlier versions knew pilots only, and named no mode.
    unnamed = "pilot" if Path(root, "pilots").is_dir() else mode
    before = (get(path) or {}).get("mode", unnamed)
    if before != mode:
        left = _not_ended(root, str(before), held)
        if left:
            raise ConfigError(
                f"backend.slurm.mode = '{mode}': attempt {left} of mode '{before}' has not ended "
                f"by the log, nor by its records below {root}: serve it with that mode until it "
                f"has; or remove {path} if nothing of it runs"
            )
    put(path, {"mode": mode})


def _not_ended(root: str, mode: str, held: Collection[tuple[JobId, int]]) -> str:
    """Return an attempt of a mode that has begun, or may, and has not ended."""
    names = {f"{job}/{attempt}" for job, attempt in held}
    pattern = "jobs/*/*/order" if mode == "per-job" else "nodes/*/clusters/*/jobs/*/*/started"
    for found in sorted(Path(root).glob(pattern)):
        folder = found.parent
        name, is_over = f"{folder.parent.name}/{folder.name}", (folder / "status").exists()
        if name in names and not is_over and claimed_by(str(folder)) != WITHDRAWN:
            return name
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
        is_suspended_in_slurm=section.stops_by == "scontrol",
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
