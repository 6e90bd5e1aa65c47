"""From an effect to the order of a supervisor: ranks, GPUs, CPUs, environment.

A job has one rank for each node of its allocation. CPUs are those with the fewest tenants, the
lowest number first; a job that asks for none may run on all of its node.
"""

import os
import pwd
from collections import Counter

from shunter.backends.local.settings import LocalSettings
from shunter.backends.node.messages.wire import Order, Rank, User
from shunter.backends.supervised.environment import LOOPBACK, given_to
from shunter.backends.supervised.order_parts import check_startable, contract_of, order_of, rank_of
from shunter.core.effects import Launch, Resume
from shunter.errors import BackendError
from shunter.events.values.ids import UserName


def order_for(
    effect: Launch | Resume, settings: LocalSettings, tenants: Counter[int], port: int
) -> Order:
    """Return what the supervisor of an attempt is told.

    Raises:
        BackendError: the attempt cannot run here, and never will.
    """
    job_id, shares, root = effect.job_id, effect.allocation.shares, settings.root
    check_startable(effect)
    nodes = {node.name: node for node in settings.nodes}
    given = {**settings.environment, **given_to(root, job_id)}
    checkpoints = f"{root}/jobs/{job_id}/checkpoints"
    ranks: list[Rank] = []
    for number, share in enumerate(shares):
        node = nodes.get(share.node)
        if node is None or share.gpu_mask >> len(node.gpus):
            raise BackendError(f"job {job_id} was given GPUs that {share.node} does not have")
        gpus = [name for gpu, name in enumerate(node.gpus) if share.gpu_mask >> gpu & 1]
        contract = contract_of(effect, number, gpus, settings, (LOOPBACK, port), checkpoints)
        rank = rank_of(effect, share, node.cpus, {**given, **contract}, tenants)
        ranks.append({**rank, "gpus": gpus})
    memory_mb = sum(share.memory_mb for share in shares)
    group = f"{settings.cgroup}/shunter-{job_id}.{effect.attempt}" if settings.cgroup else None
    return {
        **order_of(effect, settings, term=settings.term, root=root, port=port, is_remote=False),
        "ranks": ranks,
        "gpus": [name for rank in ranks for name in rank["gpus"]],
        "memory_mb": memory_mb,
        "cgroup": group if memory_mb else None,
        "user": user_for(effect.spec.user),
    }


def user_for(name: UserName) -> User | None:
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
