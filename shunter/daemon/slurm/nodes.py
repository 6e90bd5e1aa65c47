"""Nodes that Slurm has out of service are drained here too, and restored once it has them back.

Slurm is the truth of its nodes: one that is out of service there and takes jobs here is drained, as
by an operator, whose name begins with `slurm: `. One that was drained under such a name, and is in
service again, is restored. So is one whose pilot is about to end, until it has: what was started
there would have to leave at once. A node that a person drained is neither told again nor restored;
who drained it is what the log says, so a restart of the daemon changes nothing of it.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Final, Protocol, runtime_checkable

import anyio

from shunter import clock
from shunter.core.cluster import Health
from shunter.core.interfaces import Command, DrainNode, RestoreNode
from shunter.core.state import State
from shunter.daemon.feed import Feed
from shunter.errors import UnreachableError
from shunter.events.facts import NodeDrained, NodeRemoved, NodeRestored
from shunter.events.log import LogWriter, read_log
from shunter.events.values import NodeName

BY: Final = "slurm: "
EVERY_S: Final = 0.5
_KINDS: Final = frozenset({NodeDrained.__name__, NodeRestored.__name__, NodeRemoved.__name__})
Tell = Callable[[Callable[[int], Command]], Awaitable[object]]


@runtime_checkable
class SeesNodes(Protocol):
    """A backend that knows which of its nodes somebody else has out of service."""

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, each with why; None: not known yet."""

    @property
    def silence(self) -> str:
        """For how long who knows it has not answered, and why; empty: it answers."""


@runtime_checkable
class SeesDrains(Protocol):
    """A backend some of whose nodes take no new jobs only until they are held anew."""

    @property
    def renewed(self) -> Collection[NodeName]:
        """The nodes of which that holds now."""

    @property
    def drains_changed(self) -> anyio.Event:
        """What is set when it begins to hold of a node, or does not any more."""


def is_by_slurm(by: str) -> bool:
    """Say whether it was Slurm that had a node drained, not a person."""
    return by.startswith(BY)


async def follow_slurm_nodes(
    feed: Feed,
    log: LogWriter,
    state: State,
    backend: SeesNodes,
    tell: Tell,
    by: dict[NodeName, str],
) -> None:
    """Drain and restore nodes as Slurm does, for ever.

    Args:
        feed: of the log.
        log: to read who drained nodes before.
        state: of the cluster.
        backend: whose nodes they are.
        tell: gives the scheduler a command.
        by: where who drained which node is kept up to date.
    """
    seq = feed.committed
    by.update(await _drained_by(log, seq, state))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_note, feed, seq, by)
        while True:
            changed = backend.drains_changed if isinstance(backend, SeesDrains) else anyio.Event()
            out = backend.out_of_service(clock.wall_s())
            if out is not None:
                await _settle(state, out, by, tell)
            with anyio.move_on_after(EVERY_S):
                await changed.wait()


async def tell_silence(backend: SeesNodes, tell: Callable[[str], None]) -> None:
    """Tell once that Slurm does not answer, and once that it does again, for ever."""
    was_silent = False
    while True:
        silence = backend.silence
        if bool(silence) != was_silent:
            was_silent = bool(silence)
            tell(
                f"{silence}; jobs run on, none starts in Slurm or leaves its queue until it does"
                if silence
                else "Slurm answers again"
            )
        await anyio.sleep(EVERY_S)


async def _settle(
    state: State, out: Mapping[NodeName, str], by: Mapping[NodeName, str], tell: Tell
) -> None:
    for node, server in sorted(state.cluster.servers.items()):
        order: Callable[[int], Command]
        if server.health is Health.removed:
            continue
        if node in out and not server.drained:
            order = partial(DrainNode, node=node, by=f"{BY}{out[node]}")
        elif node not in out and server.drained and is_by_slurm(by.get(node, "")):
            order = partial(RestoreNode, node=node, by=f"{BY}in service again")
        else:
            continue
        try:
            await tell(order)
        except UnreachableError:  # the scheduler ends
            return


async def _note(feed: Feed, after: int, by: dict[NodeName, str]) -> None:
    """Keep up to date who drained which node."""
    async for _, event in feed.follow(after):
        if isinstance(event, NodeDrained):
            by[event.node] = event.by
        elif isinstance(event, NodeRestored | NodeRemoved):
            by.pop(event.node, None)


async def _drained_by(log: LogWriter, seq: int, state: State) -> dict[NodeName, str]:
    """Return who drained the nodes that are drained now, by the log up to an event."""
    wanted = {name for name, server in state.cluster.servers.items() if server.drained}
    by: dict[NodeName, str] = {}
    if not wanted:
        return by
    async with read_log(log) as reader:
        async for frame in reader.frames_before(seq):
            for _, event in reversed(frame.of_kinds(_KINDS)):
                if isinstance(event, NodeDrained) and event.node in wanted:
                    by.setdefault(event.node, event.by)
            if by.keys() >= wanted:
                break
    return by
