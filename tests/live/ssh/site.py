"""A whole cluster over SSH for tests: a config for the hosts of a farm, and what to submit."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from shunter.config import LoadedConfig, make_config
from shunter.daemon import Submission
from shunter.events import JobSpec
from tests.live.ssh.bench import WORKER
from tests.live.ssh.farm import Farm


def cluster(
    farm: Farm,
    root: Path,
    gpus: Mapping[str, int] | None = None,
    /,
    **changes: object,
) -> LoadedConfig:
    """Return the config of a cluster of one GPU on each host, with all that is its own in a folder.

    Args:
        farm: the hosts.
        root: the folder; `ledger` in it is what the jobs tell of themselves.
        gpus: of hosts that have more.
        changes: of the table [backend.ssh], as `policy` the table [policy], and as `nodes` the
            names of the hosts that take part; else all do.
    """
    counts = gpus or {}
    names = cast("tuple[str, ...]", changes.pop("nodes", tuple(farm.hosts)))
    policy = {"trigger": "event", **cast(dict[str, object], changes.pop("policy", {}))}
    hosts = {
        host.name: {
            "address": host.address,
            "port": host.port,
            "user": farm.user,
            "base": str(root / host.name),
        }
        for host in map(farm.hosts.__getitem__, names)
    }
    ssh: dict[str, Any] = {
        "root": str(root / "daemon"),
        "known_hosts": str(farm.known_hosts),
        "keys": [str(farm.key)],
        "python": sys.executable,
        "hosts": hosts,
        "connect": 10.0,
        "keepalive": 0.5,
        "heartbeat": 0.5,
        "heartbeat_deadline": 60.0,
        "margin": 3.0,
        "grace": 0.3,
        "restart": 0.3,
        **changes,
    }
    return make_config(
        {
            "cluster": {"nodes": [{"name": name, "gpus": counts.get(name, 1)} for name in names]},
            "policy": policy,
            "backend": {"kind": "ssh", "ssh": ssh},
            "log": {"url": str(root / "log.db"), "snapshot_every": 15, "seal_after": 20},
        }
    )


def worker(root: Path, key: str, work_s: float, code: int = 0, gpus: int = 1) -> Submission:
    """Return a job that keeps the ledger of a folder."""
    argv = (str(root), str(work_s), str(code))
    command = (sys.executable, "-I", "-S", "-c", WORKER, *argv)
    return Submission(JobSpec(command=command, gpus=gpus), key=key)
