"""From an effect to the order of a supervisor: ranks, GPUs, CPUs, environment.

A job has one rank for each node of its allocation. CPUs are those with the fewest tenants, the
lowest number first; a job that asks for none may run on all of its node.
"""

import os
import pwd
from collections import Counter
from collections.abc import Mapping
from signal import Signals
from typing import Any

from shunter.backends.local.settings import LocalNode, LocalSettings
from shunter.backends.supervised.demands import check_startable, quietest
from shunter.backends.supervised.environment import LOOPBACK, filled, given_to, rank_environment
from shunter.core.effects import Launch, Resume
from shunter.errors import BackendError
from shunter.events.values.allocation import Share
from shunter.events.values.ids import UserName


def order_for(
    effect: Launch | Resume, settings: LocalSettings, tenants: Counter[int], port: int
) -> dict[str, Any]:
    """Return what the supervisor of an attempt is told.

    Raises:
        BackendError: the attempt cannot run here, and never will.
    """
    job_id, spec = effect.job_id, effect.spec
    check_startable(effect)
    nodes = {node.name: node for node in settings.nodes}
    given = {**settings.environment, **given_to(settings.root, job_id)}
    ranks = []
    for number, share in enumerate(effect.allocation.shares):
        node = nodes.get(share.node)
        if node is None or share.gpu_mask >> len(node.gpus):
            raise BackendError(f"job {job_id} was given GPUs that {share.node} does not have")
        gpus = [name for gpu, name in enumerate(node.gpus) if share.gpu_mask >> gpu & 1]
        promised = _promised(effect, number, gpus, settings, port)
        ranks.append(_rank(effect, share, node, {**given, **promised}, tenants) | {"gpus": gpus})
    memory_mb = sum(share.memory_mb for share in effect.allocation.shares)
    group = f"{settings.cgroup}/shunter-{job_id}.{effect.attempt}" if settings.cgroup else None
    mode = spec.suspend_mode.value
    limits = {f"{name}_s": getattr(settings, f"{name}_s") for name in _STAGES}
    return {
        "job": job_id,
        "attempt": effect.attempt,
        "term": settings.term,
        "placement": [[share.node, share.gpu_mask] for share in effect.allocation.shares],
        "ranks": ranks,
        "suspend": {"mode": mode, "signal": settings.suspend_signal, **limits},
        "grace_s": settings.grace_s,
        "port": port,
        "gpus": [name for rank in ranks for name in rank["gpus"]],
        "memory_mb": memory_mb,
        "cgroup": group if memory_mb else None,
        "sample_s": settings.sample_s,
        "output_bytes_max": settings.output_bytes_max,
        "user": user_for(spec.user),
        "heartbeat": {
            "path": f"{settings.root}/heartbeat",
            "deadline_s": settings.heartbeat_deadline_s,
        },
    }


_STAGES = ("cooperative", "signal", "restart")


def _promised(
    effect: Launch | Resume, number: int, gpus: list[str], settings: LocalSettings, port: int
) -> Mapping[str, str]:
    """Return what a rank finds in its environment whatever its submitter gave it."""
    contract = rank_environment(
        job=effect.job_id,
        attempt=effect.attempt,
        is_resumed=isinstance(effect, Resume),
        rank=number,
        world=len(effect.allocation.shares),
        master=(LOOPBACK, port),
        gpus=",".join(gpus),
        checkpoints=f"{settings.root}/jobs/{effect.job_id}/checkpoints",
    )
    signal = Signals(settings.suspend_signal).name
    node = effect.allocation.shares[number].node
    return {**contract, "SHUNTER_NODE": node, "SHUNTER_SUSPEND_SIGNAL": signal}


def _rank(
    effect: Launch | Resume,
    share: Share,
    node: LocalNode,
    environment: Mapping[str, str],
    tenants: Counter[int],
) -> dict[str, Any]:
    count = -(-share.cpus_milli // 1000)
    cpus = quietest(node.cpus, count, tenants) if count else node.cpus
    return {
        "argv": filled(effect.spec.command, environment),
        "env": dict(environment),
        "cpus": list(cpus),
        "pinned": bool(count),
        "directory": effect.spec.directory or "/",
    }


def user_for(name: UserName) -> dict[str, Any] | None:
    """Return whom a job runs as: its submitter if we are root, else ourselves.

    Raises:
        BackendError: this machine does not know the user.
    """
    if not name or os.geteuid() != 0:
        return None
    try:
        found = pwd.getpwnam(name)
    except KeyError as error:
        raise BackendError(f"user {name} is not known on this machine") from error
    groups = os.getgrouplist(name, found.pw_gid)
    return {"uid": found.pw_uid, "gid": found.pw_gid, "groups": groups}
