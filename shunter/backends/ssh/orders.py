"""From an effect to the orders of the supervisors of a gang: one for each host of its allocation.

A job has one rank for each host, which sees all GPUs it was given there. What a host alone knows,
the home and the groups of a user, say, is filled in there (shunter.backends.node.remote.session).
"""

from collections import Counter
from collections.abc import Mapping

from shunter.backends.node.messages.wire import Order
from shunter.backends.ssh.settings import SshHost, SshSettings
from shunter.backends.supervised.order_parts import check_startable, contract_of, order_of, rank_of
from shunter.core.effects import Launch, Resume
from shunter.errors import BackendError
from shunter.events.values.ids import NodeName

__all__ = ["orders_for"]


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
    orders: dict[NodeName, Order] = {}
    for number, share in enumerate(shares):
        host = hosts.get(share.node)
        if host is None or first is None or share.gpu_mask >> len(host.gpus):
            raise BackendError(f"job {job_id} was given GPUs that {share.node} does not have")
        root, gpus = roots[share.node], _gpus(host, share.gpu_mask)
        checkpoints = checkpoints_of(settings, root, job_id)
        master = (first.gang_address or first.address, port)
        contract = contract_of(effect, number, gpus, settings, master, checkpoints)
        environment = {**host.environment, **given, **contract}
        orders[share.node] = {
            **order_of(effect, settings, term=settings.term, root=root, port=port, is_remote=True),
            "ranks": [rank_of(effect, share, host.cpus, environment, tenants[share.node])],
            "gpus": gpus,
            "memory_mb": share.memory_mb,
            "user_name": effect.spec.user,
            "checkpoints": checkpoints,
        }
    return orders


def checkpoints_of(settings: SshSettings, root: str, job: str) -> str:
    """Return the folder of a job's checkpoints on a host."""
    if settings.checkpoints:
        return f"{settings.checkpoints}/{settings.cluster_id}/{job}"
    return f"{root}/jobs/{job}/checkpoints"


def _gpus(host: SshHost, mask: int) -> list[str]:
    return [name for number, name in enumerate(host.gpus) if mask >> number & 1]
