"""The CPUs and memory to which attempts are held: what each agent is told of, and what people are.

A change that cannot be made costs no job: it runs on with what it has, and that is told, as a
fact as well.
"""

from collections import deque
from collections.abc import Mapping, Sequence

import anyio

from shunter.backends.agents.answers import ReshapeAnswer
from shunter.backends.agents.orders import Shares
from shunter.backends.agents.transport import Server, Transport
from shunter.events.facts import ReshapeRefused
from shunter.events.values import Allocation, NodeName, Share, Sharing

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
) -> dict[NodeName, Shares]:
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
        found[name] = Shares(
            cpus_milli=sum(share.cpus_milli for share in own),
            memory_mb=sum(share.memory_mb for share in own),
            cpus=tuple(sorted(usable)),
        )
    return found


def shares_kept(
    wanted: Sequence[Share], had: Shares | None, answer: ReshapeAnswer | None
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
