"""From an effect to the orders of the supervisors of a gang: one for each host of its allocation.

A job has one rank for each host, which sees all GPUs it was given there. What a host alone knows,
the home and the groups of a user, say, is filled in there (shunter.backends.node.remote.session).
"""

from collections import Counter
from collections.abc import Mapping
from signal import Signals
from typing import Any

from shunter.backends.ssh.settings import SshHost, SshSettings
from shunter.backends.supervised.demands import check_startable, quietest
from shunter.backends.supervised.environment import filled, rank_environment
from shunter.core.effects import Launch, Resume
from shunter.errors import BackendError
from shunter.events.values.allocation import Share
from shunter.events.values.ids import NodeName

__all__ = ["orders_for"]

Order = dict[str, Any]
_STAGES = ("cooperative", "signal", "restart")


def orders_for(
    effect: Launch | Resume,
    settings: SshSettings,
    roots: Mapping[NodeName, str],
    tenants: Mapping[NodeName, Counter[int]],
    given: Mapping[str, str],
    port: int,
) -> dict[NodeName, Order]:
    """Return what the supervisors of an attempt are told, in order of rank.

    Args:
        effect: what is to be launched.
        settings: the cluster.
        roots: where attempts lie on each host.
        tenants: how many ranks each CPU of a host has.
        given: the environment that the submitter gave the job.
        port: where its ranks find each other, on the host of the first.
    Raises:
        BackendError: the attempt cannot run here, and never will.
    """
    job_id, shares = effect.job_id, effect.allocation.shares
    check_startable(effect)
    hosts = {host.name: host for host in settings.hosts}
    first = hosts.get(shares[0].node)
    orders = {}
    for number, share in enumerate(shares):
        host = hosts.get(share.node)
        if host is None or first is None or share.gpu_mask >> len(host.gpus):
            raise BackendError(f"job {job_id} was given GPUs that {share.node} does not have")
        root, gpus = roots[share.node], _gpus(host, share.gpu_mask)
        promised = rank_environment(
            job=job_id,
            attempt=effect.attempt,
            is_resumed=isinstance(effect, Resume),
            rank=number,
            world=len(shares),
            master=(first.gang_address or first.address, port),
            gpus=",".join(gpus),
            checkpoints=checkpoints_of(settings, root, job_id),
        )
        environment = {**host.environment, **given, **promised}
        orders[share.node] = {
            **_order(effect, settings, root, port),
            "ranks": [_rank(effect, share, host, environment, settings, tenants[share.node])],
            "gpus": gpus,
            "memory_mb": share.memory_mb,
        }
    return orders


def _rank(
    effect: Launch | Resume,
    share: Share,
    host: SshHost,
    environment: Mapping[str, str],
    settings: SshSettings,
    tenants: Counter[int],
) -> Order:
    count = -(-share.cpus_milli // 1000)
    cpus = quietest(host.cpus, count, tenants) if count else host.cpus
    signal = Signals(settings.suspend_signal).name
    here = {"SHUNTER_NODE": share.node, "SHUNTER_SUSPEND_SIGNAL": signal}
    return {
        "argv": filled(effect.spec.command, environment),
        "env": {**environment, **here},
        "cpus": list(cpus),
        "pinned": bool(count),
        "directory": effect.spec.directory or "/",
    }


def checkpoints_of(settings: SshSettings, root: str, job: str) -> str:
    """Return the folder of a job's checkpoints on a host."""
    if settings.checkpoints:
        return f"{settings.checkpoints}/{settings.cluster_id}/{job}"
    return f"{root}/jobs/{job}/checkpoints"


def _order(effect: Launch | Resume, settings: SshSettings, root: str, port: int) -> Order:
    """Return what is equal on all hosts, but for their folders."""
    limits = {f"{name}_s": getattr(settings, f"{name}_s") for name in _STAGES}
    mode = effect.spec.suspend_mode.value
    return {
        "job": effect.job_id,
        "attempt": effect.attempt,
        "term": settings.term,
        "placement": [[share.node, share.gpu_mask] for share in effect.allocation.shares],
        "suspend": {"mode": mode, "signal": settings.suspend_signal, **limits},
        "grace_s": settings.grace_s,
        "port": port,
        "sample_s": settings.sample_s,
        "output_bytes_max": settings.output_bytes_max,
        "user_name": effect.spec.user,
        "checkpoints": checkpoints_of(settings, root, effect.job_id),
        "heartbeat": {
            "path": f"{root}/heartbeat",
            "deadline_s": settings.heartbeat_deadline_s,
            "is_far": True,
        },
    }


def _gpus(host: SshHost, mask: int) -> list[str]:
    return [name for number, name in enumerate(host.gpus) if mask >> number & 1]
