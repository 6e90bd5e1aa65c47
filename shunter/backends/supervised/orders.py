"""From an effect to the orders of supervisors: one for each agent of its allocation.

A job has one rank for each server, which sees all GPUs it was given there; none where it was given
units of CPU. Its CPUs are those of the sockets that its GPUs are on, as far as these are known: of
them those with the fewest tenants, the lowest number first, and further ones only where they do not
suffice. A rank that asks for none may run on all of them. What a node alone knows, the home and the
groups of a user, say, is filled in there (shunter.backends.node.session).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from signal import Signals

from msgspec.structs import replace

from shunter.backends.agents.orders import (
    HeartbeatLimits,
    Order,
    Rank,
    Shares,
    Slicing,
    Suspend,
)
from shunter.backends.agents.settings import Limits, Owner
from shunter.backends.agents.transport import NO_DEVICE, Server, Transport
from shunter.backends.node.messages import a_job, checked
from shunter.backends.supervised.environment import CUDA, devices_shown, filled, rank_environment
from shunter.backends.supervised.shares import cpus_for, cpus_near, shares_of
from shunter.core.effects import Launch, Resume
from shunter.errors import BackendError
from shunter.events.values.allocation import Allocation, Sharing
from shunter.events.values.ids import NodeName

UNTOLD = (1, 0, 0)
"""The timetable of a gang until it is told another one: no turns."""


@dataclass(frozen=True, slots=True)
class Where:
    """An agent, as far as orders for it need it.

    `root` is where attempts lie on its node, and `tenants` counts the ranks that each CPU has.
    """

    transport: Transport
    root: str
    tenants: Counter[int]

    def server(self, name: NodeName) -> Server:
        """Return one of its servers."""
        return next(each for each in self.transport.servers if each.name == name)


def orders_for(
    effect: Launch | Resume,
    limits: Limits,
    owner: Owner,
    agents: Mapping[NodeName, Where],
    given: Mapping[str, str],
    port: int,
) -> dict[NodeName, Order]:
    """Return what the supervisors of an attempt are told, by agent, in order of rank.

    Args:
        effect: what is to be launched.
        limits: of the backend.
        owner: who schedules.
        agents: who works for each server of its allocation.
        given: the environment that the submitter gave the job.
        port: where its ranks find each other, on the node of the first.
    Raises:
        BackendError: the attempt cannot run here, and never will.
    """
    shares = effect.allocation.shares
    check_startable(effect)
    slicing = _slicing(effect, limits)
    first = agents[shares[0].node].transport
    ranks: dict[NodeName, list[Rank]] = {}
    for number, share in enumerate(shares):
        where = agents[share.node]
        server = where.server(share.node)
        if share.gpu_mask >> len(server.gpus):
            raise BackendError(
                f"job {effect.job_id} was given GPUs that {share.node} does not have"
            )
        given_here = [gpu for at, gpu in enumerate(server.gpus) if share.gpu_mask >> at & 1]
        gpus = tuple([gpu for gpu in given_here if gpu != NO_DEVICE])
        checkpoints = checkpoints_of(limits, owner, where.root, effect.job_id)
        contract = contract_of(effect, number, gpus, limits, (first.address, port), checkpoints)
        if slicing is not None:
            contract = {**contract, "SHUNTER_TURN_GPUS": ",".join(server.gpus)}
        environment = {**where.transport.environment, **given, **contract}
        count = 0 if limits.is_sized else -(-share.cpus_milli // 1000)  # quotas know parts of CPUs
        cpus: Sequence[int] = cpus_for(server, effect.allocation, share)
        if count:
            near = cpus_near(server, effect.allocation, share)
            cpus = _quietest(server.cpus, near, where.tenants)[:count]
        rank = _rank(effect, cpus, environment, gpus, is_pinned=bool(count))
        ranks.setdefault(where.transport.name, []).append(rank)
    by_agent = {where.transport.name: where for where in agents.values()}
    transports = {node: where.transport for node, where in agents.items()}
    held = shares_of(effect.allocation, transports) if limits.is_sized else {}
    return {
        name: replace(
            _order(effect, limits, owner, by_agent[name], tuple(own), port, held.get(name)),
            slicing=_slicing_on(by_agent[name], slicing, effect.allocation),
            awaits_others=len(ranks) > 1,
        )
        for name, own in ranks.items()
    }


def _quietest(cpus: Iterable[int], near: Collection[int], tenants: Mapping[int, int]) -> list[int]:
    """Return CPUs: near ones first, of equals those with the fewest tenants."""
    return sorted(cpus, key=lambda cpu: (cpu not in near, tenants[cpu], cpu))


def _slicing(effect: Launch | Resume, limits: Limits) -> Slicing | None:
    """Return how an attempt takes turns; None: it has its GPUs for itself.

    Raises:
        BackendError: it would take turns, and cannot here.
    """
    allocation, settings = effect.allocation, limits.slicing
    if allocation.sharing is not Sharing.sliced:
        return None
    if settings is None:
        raise BackendError(f"job {effect.job_id} is to share GPUs in turns, which none do here")
    return Slicing(
        weight=effect.spec.weight,
        is_fixed=True,
        quantum_us=settings.quantum_us,
        wait_most_us=settings.wait_most_us,
        boundary_most_us=settings.boundary_most_us,
        timetable=UNTOLD if allocation.is_spread else None,
    )


def _slicing_on(where: Where, slicing: Slicing | None, allocation: Allocation) -> Slicing | None:
    """Return how an attempt takes turns on the servers of an agent."""
    own = {server.name for server in where.transport.servers}
    homes = tuple((one.node, one.gpu_mask) for one in allocation.shares if one.node in own)
    return None if slicing is None else replace(slicing, homes=homes)


def checkpoints_of(limits: Limits, owner: Owner, root: str, job: str) -> str:
    """Return the folder of a job's checkpoints on a node."""
    if limits.checkpoints:
        return f"{limits.checkpoints}/{owner.cluster_id}/{job}"
    return f"{root}/jobs/{job}/checkpoints"


def check_startable(effect: Launch | Resume) -> None:
    """Refuse what no supervisor could run.

    Raises:
        BackendError: its name names no folder, or it has no command.
    """
    job_id = effect.job_id
    if checked(job_id, a_job) is None:
        raise BackendError(f"job {job_id!r} cannot name a folder: use letters, digits, . _ -")
    if not effect.spec.command:
        raise BackendError(f"job {job_id} has no command to run")


def _order(
    effect: Launch | Resume,
    limits: Limits,
    owner: Owner,
    where: Where,
    ranks: tuple[Rank, ...],
    port: int,
    shares: Shares | None,
) -> Order:
    """Return the order of an attempt to an agent, with the ranks on its servers."""
    own = {server.name for server in where.transport.servers}
    limit_us = effect.spec.time_limit_us
    return Order(
        job=effect.job_id,
        attempt=effect.attempt,
        term=owner.term,
        placement=tuple((share.node, share.gpu_mask) for share in effect.allocation.shares),
        ranks=ranks,
        gpus=tuple(gpu for rank in ranks for gpu in rank.gpus),
        memory_mb=sum(share.memory_mb for share in effect.allocation.shares if share.node in own),
        user_name=effect.spec.user,
        checkpoints=checkpoints_of(limits, owner, where.root, effect.job_id),
        suspend=Suspend(
            mode=effect.spec.suspend_mode.value,
            signal=limits.suspend_signal,
            cooperative_s=limits.cooperative_s,
            signal_s=limits.signal_s,
            restart_s=limits.restart_s,
        ),
        grace_s=limits.grace_s,
        port=port,
        sample_s=limits.sample_s,
        output_bytes_max=limits.output_bytes_max,
        heartbeat=HeartbeatLimits(
            path=f"{where.root}/heartbeat",
            deadline_s=limits.heartbeat_deadline_s,
            is_remote=not where.transport.is_here,
        ),
        time_limit_s=None if limit_us is None else limit_us / 1e6,
        shares=shares,
        is_bound=limits.is_bound,
    )


def _rank(
    effect: Launch | Resume,
    cpus: Iterable[int],
    environment: Mapping[str, str],
    gpus: tuple[str, ...],
    *,
    is_pinned: bool,
) -> Rank:
    """Return how a rank is run.

    Args:
        effect: the launch that it is part of.
        cpus: the numbers of its CPUs: those that have the fewest tenants, if it asked for some.
        environment: the variables of its process.
        gpus: its GPUs, as CUDA names them.
        is_pinned: it asked for some.
    """
    return Rank(
        argv=tuple(filled(effect.spec.command, environment)),
        env=dict(environment),
        cpus=tuple(sorted(cpus)),
        pinned=is_pinned,
        directory=effect.spec.directory or "/",
        gpus=gpus,
    )


def contract_of(
    effect: Launch | Resume,
    number: int,
    gpus: Sequence[str],
    limits: Limits,
    master: tuple[str, int],
    checkpoints: str,
) -> Mapping[str, str]:
    """Return what a rank finds in its environment whatever its submitter gave it.

    Args:
        effect: the launch that it is part of.
        number: its rank.
        gpus: the names of its GPUs.
        limits: of the backend.
        master: the address and port at which ranks find each other.
        checkpoints: the folder of the job's checkpoints.
    """
    node = effect.allocation.shares[number].node
    contract = rank_environment(
        job=effect.job_id,
        attempt=effect.attempt,
        is_resumed=isinstance(effect, Resume),
        rank=number,
        world=len(effect.allocation.shares),
        master=master,
        devices=devices_shown(",".join(gpus), limits.visible.get(node, CUDA)),
        checkpoints=checkpoints,
    )
    signal, index = Signals(limits.suspend_signal).name, effect.spec.array_index
    return {
        **contract,
        "SHUNTER_NODE": node,
        "SHUNTER_GPUS": str(len(gpus)),
        "SHUNTER_SUSPEND_SIGNAL": signal,
        **({} if index is None else {"SHUNTER_ARRAY_INDEX": str(index)}),
    }
