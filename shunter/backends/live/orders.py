"""What an attempt is given on its servers: shares, environment, and the orders of its supervisors.

A job has one rank for each server, which sees all GPUs it was given there; none where it was given
units of CPU. Its CPUs are those of the sockets that its GPUs are on, as far as these are known: of
them those with the fewest tenants, the lowest number first, and further ones only where they do not
suffice. A rank that asks for none may run on all of them. What a node alone knows, the home and the
groups of a user, say, is filled in there (shunter.backends.node.session).
"""

import json
import os
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

import anyio

from shunter.backends.live.settings import Limits, Owner
from shunter.backends.live.transport import NO_DEVICE, Server, Transport
from shunter.backends.node import checked, messages, own_folder
from shunter.core import TURN_WEIGHT_LEAST, TURN_WEIGHT_MOST, Launch, Resume
from shunter.errors import BackendError
from shunter.events import Allocation, JobId, NodeName, ReshapeRefused, Share, Sharing

# The CPUs and memory of attempts. A change that cannot be made costs no job: it is reported.

NOTICES_MOST = 100


def cpus_near(server: Server, allocation: Allocation, share: Share) -> tuple[int, ...]:
    """Return the CPUs of the sockets that the GPUs of a share are on.

    All of its server where that is not known, and where it has no GPUs, or others each turn.
    """
    if allocation.sharing is Sharing.sliced:
        return server.cpus
    near = {cpu for mask, cpus in server.sockets if mask & share.gpu_mask for cpu in cpus}
    return tuple([cpu for cpu in server.cpus if cpu in near]) or server.cpus


def cpus_for(server: Server, allocation: Allocation, share: Share) -> tuple[int, ...]:
    """Return the CPUs that a share may use: near ones, or all if too few."""
    near = cpus_near(server, allocation, share)
    return near if 1000 * len(near) >= share.cpus_milli else server.cpus


def shares_of(
    allocation: Allocation, transports: Mapping[NodeName, Transport]
) -> dict[NodeName, messages.Shares]:
    """Return what an attempt is held to, by agent; nothing where it is to nothing.

    Args:
        allocation: of the attempt.
        transports: how the agent of each of its servers is reached; others are passed over.
    """
    by_agent: dict[NodeName, list[Share]] = {}
    for share in allocation.shares:
        if share.node in transports and (share.cpus_milli or share.memory_mb):
            by_agent.setdefault(transports[share.node].name, []).append(share)
    found = {}
    for name, own in by_agent.items():
        servers = {each.name: each for each in transports[own[0].node].servers}
        usable = {cpu for share in own for cpu in cpus_for(servers[share.node], allocation, share)}
        found[name] = messages.Shares(
            cpus_milli=sum(share.cpus_milli for share in own),
            memory_mb=sum(share.memory_mb for share in own),
            cpus=tuple(sorted(usable)),
        )
    return found


def shares_kept(
    wanted: Sequence[Share], had: messages.Shares | None, answer: messages.ReshapeAnswer | None
) -> tuple[Share, ...]:
    """Return what an attempt keeps where an agent refused it other shares.

    That is what the kernel has; where it says nothing, what was held last, and where nobody knows
    that (it was an earlier term's), what was wanted. Of several servers, each GPU has the same.

    Args:
        wanted: what was refused.
        had: what the agent took last, of all its servers together; None: nobody knows.
        answer: of the agent; None: it only refused.
    """
    totals = []
    for name in ("cpus_milli", "memory_mb"):
        told = 0 if answer is None else int(getattr(answer, name))
        before = sum(getattr(share, name) for share in wanted)
        totals.append(told or (before if had is None else int(getattr(had, name))))
    weights = [share.gpus for share in wanted]
    weights = weights if all(weights) else [1] * len(wanted)
    kept, upto, whole = list[Share](), 0, sum(weights)
    for share, weight in zip(wanted, weights, strict=True):
        first, upto = upto, upto + weight
        cpus_milli, memory_mb = (total * upto // whole - total * first // whole for total in totals)
        kept.append(Share(share.node, share.gpu_mask, cpus_milli, memory_mb))
    return tuple(kept)


def refusal_in_words(fact: ReshapeRefused) -> str:
    """Return what a job keeps where, what it was to have, and why it has not."""
    kept, wanted = (
        f"{sum(share.cpus_milli for share in shares) / 1000:g} CPUs and "
        f"{sum(share.memory_mb for share in shares)} MB of memory"
        for shares in (fact.kept, fact.wanted)
    )
    nodes = ", ".join(share.node for share in fact.kept)
    return f"job {fact.job_id} on {nodes} keeps {kept}, and not {wanted}: {fact.cause}"


class ShareNotices:
    """What is to be told of shares; the oldest is dropped where nobody listens."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque(maxlen=NOTICES_MOST)
        self._came = anyio.Event()
        self._means: set[str] = set()

    def put(self, words: str) -> None:
        """Have something told."""
        self._waiting.append(words)
        self._came.set()

    def put_means(self, name: NodeName, words: str) -> None:
        """Have told by what an agent holds attempts, if it is the first that does it so."""
        if words and words not in self._means:
            self._means.add(words)
            self.put(f"shares of jobs on {name}: {words}")

    async def take(self) -> str:
        """Wait for the next one."""
        while not self._waiting:
            self._came = anyio.Event()
            await self._came.wait()
        return self._waiting.popleft()


# The environment of a job (docs/reference/environment.md). The submitter's values are in a file
# that only we can read, never in the log; ours win over them.

CUDA = "CUDA_VISIBLE_DEVICES"
_SECRET = re.compile(r"\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")


def environment_path(root: str, job_id: JobId) -> Path:
    """Return where a job's environment lies: a JSON object of texts, mode 0600."""
    return Path(root) / "jobs" / job_id / "environment.json"


def given_to(root: str, job_id: JobId) -> dict[str, str]:
    """Return the environment that a job's submitter gave it.

    Raises:
        BackendError: the file cannot be read, or is no object of names and texts.
    """
    path = environment_path(root, job_id)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:  # its text is secret: only where it is wrong is told
        what = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise BackendError(f"the environment of job {job_id} in {path}: {what}") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise BackendError(f"the environment of job {job_id} in {path}: expected texts by name")
    return found


def store_all(root: str, given: Mapping[JobId, Mapping[str, str]]) -> None:
    """Store what submitters gave jobs, durably; what was stored before is gone.

    Raises:
        BackendError: one of them cannot be written.
    """
    for job_id, environment in given.items():
        _store(root, job_id, environment)


def _store(root: str, job_id: JobId, given: Mapping[str, str]) -> None:
    path = environment_path(root, job_id)
    try:
        if not given:
            path.unlink(missing_ok=True)
            return
        own_folder(str(path.parent))
        put_privately(path, json.dumps(dict(given)))
    except OSError as error:
        what = f"the environment of job {job_id} cannot be stored in {path}: {error.strerror}"
        raise BackendError(what, retryable=True) from error


def put_privately(path: Path, text: str) -> None:
    """Write a file that only we can read, whole or not at all, and durably.

    Raises:
        OSError: it cannot be written.
    """
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as written:
        written.write(text)
        written.flush()
        os.fsync(file)
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def filled(command: Iterable[str], given: Mapping[str, str]) -> list[str]:
    """Return a command with values where it says `{secret:NAME}`, as the log does."""
    return [_SECRET.sub(lambda found: given.get(found[1], found[0]), word) for word in command]


# From an effect to one order for the supervisor on each node.

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
) -> dict[NodeName, messages.Order]:
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
    ranks: dict[NodeName, list[messages.Rank]] = {}
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
        count = (
            0 if limits.is_limited else -(-share.cpus_milli // 1000)
        )  # quotas know parts of CPUs
        cpus: Sequence[int] = cpus_for(server, effect.allocation, share)
        if count:
            near = cpus_near(server, effect.allocation, share)
            cpus = _quietest(server.cpus, near, where.tenants)[:count]
        rank = messages.Rank(
            argv=tuple(filled(effect.spec.command, environment)),
            env=environment,
            cpus=tuple(sorted(cpus)),
            pinned=bool(count),
            directory=effect.spec.directory or "/",
            gpus=gpus,
        )
        ranks.setdefault(where.transport.name, []).append(rank)
    by_agent = {where.transport.name: where for where in agents.values()}
    transports = {node: where.transport for node, where in agents.items()}
    held = shares_of(effect.allocation, transports) if limits.is_limited else {}
    return {
        name: _order(
            effect, limits, owner, by_agent[name], tuple(own), port, held.get(name)
        ).replaced(
            slicing=_slicing_on(by_agent[name], slicing, effect.allocation),
            awaits_others=len(ranks) > 1,
        )
        for name, own in ranks.items()
    }


def _quietest(cpus: Iterable[int], near: Collection[int], tenants: Mapping[int, int]) -> list[int]:
    """Return CPUs: near ones first, of equals those with the fewest tenants."""
    return sorted(cpus, key=lambda cpu: (cpu not in near, tenants[cpu], cpu))


def _slicing(effect: Launch | Resume, limits: Limits) -> messages.AttemptTurns | None:
    """Return how an attempt takes turns; None: it has its GPUs for itself."""
    allocation, settings = effect.allocation, limits.slicing
    if allocation.sharing is not Sharing.sliced:
        return None
    if settings is None:
        raise BackendError(f"job {effect.job_id} is to share GPUs in turns, which none do here")
    return messages.AttemptTurns(
        weight=max(TURN_WEIGHT_LEAST, min(TURN_WEIGHT_MOST, effect.spec.weight)),
        is_fixed=True,
        quantum_us=settings.quantum_us,
        wait_most_us=settings.wait_most_us,
        boundary_most_us=settings.boundary_most_us,
        timetable=UNTOLD if allocation.is_spread else None,
    )


def _slicing_on(
    where: Where, slicing: messages.AttemptTurns | None, allocation: Allocation
) -> messages.AttemptTurns | None:
    """Return how an attempt takes turns on the servers of an agent."""
    own = {server.name for server in where.transport.servers}
    homes = tuple((one.node, one.gpu_mask) for one in allocation.shares if one.node in own)
    return None if slicing is None else slicing.replaced(homes=homes)


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
    if checked(job_id, messages.a_job) is None:
        raise BackendError(f"job {job_id!r} cannot name a folder: use letters, digits, . _ -")
    if not effect.spec.command:
        raise BackendError(f"job {job_id} has no command to run")


def _order(
    effect: Launch | Resume,
    limits: Limits,
    owner: Owner,
    where: Where,
    ranks: tuple[messages.Rank, ...],
    port: int,
    shares: messages.Shares | None,
) -> messages.Order:
    """Return the order of an attempt to an agent, with the ranks on its servers."""
    own = {server.name for server in where.transport.servers}
    limit_us = effect.spec.time_limit_us
    return messages.Order(
        job=effect.job_id,
        attempt=effect.attempt,
        term=owner.term,
        placement=tuple((share.node, share.gpu_mask) for share in effect.allocation.shares),
        ranks=ranks,
        gpus=tuple(gpu for rank in ranks for gpu in rank.gpus),
        memory_mb=sum(share.memory_mb for share in effect.allocation.shares if share.node in own),
        user_name=effect.spec.user,
        checkpoints=checkpoints_of(limits, owner, where.root, effect.job_id),
        suspend=messages.Suspend(
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
        heartbeat=messages.HeartbeatLimits(
            path=f"{where.root}/heartbeat",
            deadline_s=limits.heartbeat_deadline_s,
            is_remote=not where.transport.is_here,
        ),
        time_limit_s=None if limit_us is None else limit_us / 1e6,
        shares=shares,
        is_bound=limits.is_bound,
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
    node, index = effect.allocation.shares[number].node, effect.spec.array_index
    visible = limits.visible.get(node, CUDA)
    return {
        "RANK": str(number),
        "WORLD_SIZE": str(len(effect.allocation.shares)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": master[0],
        "MASTER_PORT": str(master[1]),
        visible: ",".join(gpus),
        # The order in which NVML counts too.
        **({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if visible == CUDA else {}),
        "SHUNTER_JOB": effect.job_id,
        "SHUNTER_ATTEMPT": str(effect.attempt),
        "SHUNTER_CHECKPOINT_DIR": checkpoints,
        **({"SHUNTER_RESUME": "1"} if isinstance(effect, Resume) else {}),
        "SHUNTER_NODE": node,
        "SHUNTER_GPUS": str(len(gpus)),
        "SHUNTER_SUSPEND_SIGNAL": Signals(limits.suspend_signal).name,
        **({} if index is None else {"SHUNTER_ARRAY_INDEX": str(index)}),
    }
