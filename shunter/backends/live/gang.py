"""A gang: one attempt whose parts run on several nodes, each under a supervisor of its own.

A gang has started once all parts have, and is over once all parts are. No rank runs its program
before all supervisors have started, and what ends one part ends the others, by the weakest means
that fits.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import anyio

from shunter.backends.live.inbox import Inbox, Stamped
from shunter.backends.live.node_agent import NodeAgent, Reading
from shunter.backends.live.orders import shares_kept
from shunter.backends.live.transport import UnreachedError
from shunter.backends.live.watch import NOT_BEGUN, Standing, Told, Watch
from shunter.backends.node import messages
from shunter.core import Effect, Fence, PauseEffect, Stop, Terminate
from shunter.errors import BackendError
from shunter.events import (
    NOTHING,
    Allocation,
    AttemptLost,
    LaunchFailed,
    NodeName,
    ReshapeRefused,
    Sharing,
)

STRENGTH = ("", "suspend", "terminate", "fence")
_ORDERS: dict[type[Effect], str] = {Terminate: "terminate", Fence: "fence"}
NEVER = messages.Known(
    job="none",
    attempt=1,
    folder="",
    state="absent",
    started=None,
    status=None,
    after=0,
    facts=0,
    notes=(),
    is_all=True,
)
"""What is known of an attempt that never was on a node."""
LOST = Standing("lost")


@dataclass(frozen=True, slots=True)
class PartTurns:
    """How a part takes turns: weight, GPUs of its own, pack and timetable."""

    weight: float
    home: int
    pack: str
    timetable: tuple[int, ...] | None = None


@dataclass(slots=True)
class Part:
    """What is known of a gang on one host.

    `record` is None while nothing is known; `is_starting` while its start is under way;
    `is_refused` once the host has said that it will not start it. `is_gone` says that its host is
    lost, `is_cut_off` that it has told nothing since it ceased to answer. `ordered` is the
    strongest order its supervisor has taken; `stance` is what it took last of `stop` and
    `continue`, `goes` whether it took that its ranks may run; `shares` are those it was told last,
    `has` those that it took last; `turns` are how it was told last to take turns. `unread` are
    notes of its journal that were not told yet, `nodes` the servers of the gang that it is on.
    """

    record: messages.Known | None = None
    reading: Reading = field(default_factory=Reading)
    unread: list[messages.Note] = field(default_factory=list)
    is_starting: bool = False
    is_refused: bool = False
    is_gone: bool = False
    is_cut_off: bool = False
    ordered: str = ""
    stance: str = ""
    goes: bool = False
    shares: messages.Shares | None = None
    has: messages.Shares | None = None
    turns: PartTurns | None = None
    nodes: tuple[NodeName, ...] = ()

    @classmethod
    def starting(cls, order: messages.Order) -> Self:
        """Return a part that is about to be started by an order."""
        slicing = order.slicing
        turns: PartTurns | None = None
        if slicing is not None:
            turns = PartTurns(slicing.weight, slicing.homes[0][1], "", slicing.timetable)
        return cls(is_starting=True, shares=order.shares, has=order.shares, turns=turns)

    def learn(self, record: messages.Known) -> None:
        """Note what its host tells of it."""
        self.unread += self.reading.take(record)
        self.record = record
        self.is_cut_off = False

    def take(self, order: str) -> None:
        """Note an order that its supervisor has taken."""
        if order == "go":
            self.goes = True
        elif order in STRENGTH:
            self.ordered = order
        else:
            self.stance = order

    @property
    def state(self) -> str:
        """Where it stands: unknown, absent, starting, running, ended, lost or gone."""
        if self.is_gone:
            return "gone"
        return "unknown" if self.record is None else str(self.record.state)

    @property
    def is_unknown(self) -> bool:
        """Whether its host may have noted what nobody could read yet."""
        return not self.is_over and (self.reading.facts is None or self.is_cut_off)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs, or ever will."""
        if self.state == "absent":
            return self.is_refused or self.ordered == "fence"
        return self.state in ("ended", "lost", "gone")

    def can_be_held_to(self, shares: messages.Shares) -> bool:
        """Whether it runs, and was not told of these shares last."""
        return self.state == "running" and not self.is_starting and self.shares != shares

    @property
    def started(self) -> messages.Started | None:
        """What its ranks were given, once they have started."""
        return None if self.record is None else self.record.started

    @property
    def status(self) -> messages.Status | None:
        """How it ended, where its supervisor said so."""
        return None if self.record is None else self.record.status


@dataclass(slots=True)
class Gang:
    """An attempt that may run on some servers, agent by agent in order of rank.

    `asked` is the strongest order it is to get, `stance` whether it is to stop in place or to
    continue, as long as it need not leave. `cause` says why it cannot begin: then it is
    fenced, and fails once that is certain; `doubt` why it was not known whether it did. `given` is
    what it is to have of its servers, and `shares` are what its processes under each agent are to
    be held to by that, where they are to anything. `weight` is its part of the turns, if it is to
    take another one than at its start, `pack` names those that it has them with. `timetable` is
    when it has them, on several servers.
    """

    watch: Watch
    parts: dict[NodeName, Part]
    nodes: tuple[NodeName, ...] = ()
    asked: str = ""
    cause: str = ""
    doubt: str = ""
    port: int = 0
    is_delivering: bool = False
    stance: str = ""
    shares: Mapping[NodeName, messages.Shares] = field(default_factory=dict)
    given: Allocation = NOTHING
    weight: float | None = None
    pack: str = ""
    timetable: tuple[int, ...] | None = None

    @property
    def is_over(self) -> bool:
        """Whether all its parts are over."""
        return all(part.is_over for part in self.parts.values())

    @property
    def has_begun(self) -> bool:
        """Whether any part of it has ever run, or may have."""
        return any(part.is_gone or part.started is not None for part in self.parts.values())

    def skip(self, noted: Mapping[NodeName, int]) -> None:
        """Note how many facts of its journals an earlier term has told, by server.

        That is the first one which a fact names. Where there is one journal all are its own. Facts
        of a gang that name no server (of an earlier version) cannot be told apart: they come again.
        """
        for part in self.parts.values():
            own = noted if len(self.parts) == 1 else part.nodes
            part.reading.told = sum(noted.get(node, 0) for node in own)

    def ask(self, effect: Effect) -> None:
        """Note what all parts are to be told; to leave, the strongest order counts."""
        if isinstance(effect, PauseEffect):
            self.stance = "stop" if isinstance(effect, Stop) else "continue"
        else:
            order = _ORDERS.get(type(effect), "suspend")
            self.asked = max(self.asked, order, key=STRENGTH.index)

    def note_switch(self, order: str, stands: Mapping[NodeName, str]) -> None:
        """Note what supervisors have done of a switch, so that nothing undoes it."""
        done = {"stop": "stopped", "continue": "running"}[order]
        for name in [name for name, stance in stands.items() if stance == done]:
            self.parts[name].take(order)
            self.stance = order

    def due(self) -> dict[NodeName, str]:
        """Return the orders that parts are yet to be given."""
        wanted = self._wanted()
        if not wanted:
            return {
                name: self.stance
                for name, part in self.parts.items()
                if not part.is_over and not part.is_starting and part.stance != self.stance
            }
        return {
            name: wanted
            for name, part in self.parts.items()
            if not part.is_over and not part.is_starting
            if STRENGTH.index(part.ordered) < STRENGTH.index(wanted)
        }

    def goes_due(self) -> list[NodeName]:
        """Return the parts whose ranks may run, and have not been told so.

        They may once all parts have started. What an earlier term said nobody knows: it is said
        again.
        """
        parts = self.parts
        if len(parts) < 2 or self._wanted() or any(not part.started for part in parts.values()):
            return []
        return [name for name, part in parts.items() if part.state == "running" and not part.goes]

    def shares_due(self) -> dict[NodeName, messages.Shares]:
        """Return the shares that parts are yet to be held to, if they may stay."""
        if not self.shares or self._wanted():
            return {}
        return {
            name: shares
            for name, shares in self.shares.items()
            if name in self.parts and self.parts[name].can_be_held_to(shares)
        }

    def turns_due(self) -> dict[NodeName, PartTurns]:
        """Return how parts are yet to take turns, if they may stay."""
        if not self.takes_turns or self._wanted():
            return {}
        due = {}
        for name, part in self.parts.items():
            weight = part.turns.weight if self.weight is None and part.turns else self.weight
            there = [one.gpu_mask for one in self.given.shares if one.node in part.nodes]
            home = there[0] if there else self.given.shares[0].gpu_mask
            if weight is None or part.state != "running" or part.is_starting:
                continue
            wanted = PartTurns(weight, home, self.pack, self.timetable)
            if part.turns != wanted:
                due[name] = wanted
        return due

    @property
    def takes_turns(self) -> bool:
        """Whether it shares its GPUs in turns."""
        return self.given.sharing is Sharing.sliced

    @property
    def is_owed(self) -> bool:
        """Whether a part is yet to be given anything."""
        return bool(self.due() or self.goes_due() or self.shares_due() or self.turns_due())

    def _wanted(self) -> str:
        """Return the strongest order to leave; nothing if it may stay."""
        return max([self.asked, *self._follows()], key=STRENGTH.index)

    def _follows(self) -> Iterable[str]:
        """Return what the fate of each part means for the others."""
        if self.cause:
            yield "fence"
        for part in self.parts.values():
            status = part.status
            if part.state in ("lost", "gone", "absent") and not part.is_starting:
                yield "fence"
            elif status is not None and part.state == "ended":
                yield _follows_from(status)


def _follows_from(status: messages.Status) -> str:
    if status.why in ("fence", "heartbeat"):
        return "fence"
    if status.suspended:
        return "suspend"
    return "terminate" if status.code else ""


def told_of(gang: Gang, inbox: Inbox, drain: str = "") -> Iterator[Stamped]:
    """Return what has not been told of a gang, and note that it has been.

    Args:
        gang: which.
        inbox: where it is told.
        drain: why its servers are about to go, where one does: the cause if it has left.
    """
    watch, known = gang.watch, merged(gang)
    if gang.goes_due() and not watch.told_start:
        return  # it starts once its ranks may run
    if known.status is not None:
        cause = "" if gang.asked else known.cause or drain
        known = dataclasses.replace(known, cause=cause)
    job_id, attempt = watch.job_id, watch.attempt
    if gang.is_over and not watch.told_start and (gang.cause or not gang.has_begun):
        watch.is_over = True
        cause = gang.cause or known.cause or gang.doubt or NOT_BEGUN
        yield lambda at_us: LaunchFailed(at_us, job_id, attempt, cause)
    elif gang.is_over and any(part.is_gone for part in gang.parts.values()):
        watch.is_over = True
        gone = next(name for name, part in gang.parts.items() if part.is_gone)
        yield lambda at_us: AttemptLost(at_us, job_id, attempt, f"host {gone} lost")
    else:
        notes = news_of(gang) if watch.accepts(known) else []
        yield from watch.tell(known, notes, inbox)
        for part in gang.parts.values() if notes else ():
            inbox.once_durable(partial(part.reading.note_durable, part.reading.read))


def news_of(gang: Gang) -> list[Told]:
    """Return the notes of all parts that were not read before, in order of time.

    None as long as what one of them does is not known: a gang has its turn where all parts have
    theirs, so the news of others would be half of the truth.
    """
    parts = list(gang.parts.values())
    if any(part.is_unknown for part in parts):
        return []
    notes = [
        Told(note, part.nodes, part.reading.was_told(note))
        for part in parts
        for note in part.unread
    ]
    for part in parts:
        part.unread = []
    return sorted(notes, key=lambda told: int(told.note.at_ns))


def merged(gang: Gang) -> Standing:
    """Return what is known of a gang, as if one supervisor told it."""
    parts = list(gang.parts.values())
    records = [part.record for part in parts if part.record is not None]
    is_all = all(record.is_all for record in records)
    begun = [record.started for record in records if record.started is not None]
    started: messages.Started | None = None
    if begun and len(begun) == len(parts):
        ranks = tuple(rank for one in begun for rank in one.ranks)
        started = begun[0].replaced(ranks=ranks, started_ns=max(one.started_ns for one in begun))
    cause = next((record.cause for record in records if record.cause), "")
    if not gang.is_over:
        return Standing("running", started, None, is_all)
    statuses = [part.status for part in parts if part.status is not None]
    if not statuses or len(statuses) < len(parts) or started is None:
        is_absent = bool(records) and all(record.state == "absent" for record in records)
        state: messages.State = "absent" if is_absent else "lost"
        return Standing(state, started, None, is_all, cause)
    return Standing("ended", started, _ended(statuses), is_all, cause)


def _ended(statuses: list[messages.Status]) -> messages.Status:
    """Return how a gang ended: by its first failure, else as all of its parts did."""
    saved_ns = max((status.saved_ns or 0 for status in statuses), default=0)
    kills = sum(status.memory_kills or 0 for status in statuses)
    return _decisive(statuses).replaced(saved_ns=saved_ns or None, memory_kills=kills)


def _decisive(statuses: list[messages.Status]) -> messages.Status:
    in_order = sorted(statuses, key=lambda status: int(status.ended_ns))
    last_ns = in_order[-1].ended_ns
    by_itself = [status for status in in_order if status.why in ("", "rank")]
    failed = [one for one in by_itself if one.code and not one.suspended]
    if failed:
        return failed[0].replaced(ended_ns=last_ns)
    ended = [one for one in in_order if one.why in ("fence", "heartbeat")]
    if ended:
        return ended[0].replaced(ended_ns=last_ns)
    left = [status for status in in_order if status.suspended]
    others = [status for status in in_order if not status.suspended and status.code]
    if others:
        return others[0].replaced(ended_ns=last_ns)
    if left:
        is_unfinished = any(one.is_unfinished for one in left)
        saved = all(one.saved for one in left)
        return left[0].replaced(saved=saved, is_unfinished=is_unfinished, ended_ns=last_ns)
    return in_order[-1]


# Orders to a gang, repeated until the agents of its parts have taken them.


async def deliver(
    gang: Gang, agents: Mapping[NodeName, NodeAgent], tell: Callable[[Gang, ReshapeRefused], None]
) -> None:
    """Give what is due to the parts whose agents answer; what nobody takes waits.

    That a part keeps other shares than it was to have is told, but for the instant.
    """
    try:
        await _let_go(gang, agents)
        for name, order in gang.due().items():
            agent, part = agents[name], gang.parts[name]
            if not agent.is_up:
                continue
            if order == "fence":
                await _fence(gang, part, agent)
            else:
                await _send(gang, part, agent, order)
            agent.look(gang.watch.job_id, gang.watch.attempt)
        for name, shares in gang.shares_due().items():
            if agents[name].is_up:
                await _reshape(gang, gang.parts[name], agents[name], shares, tell)
        for name, turns in gang.turns_due().items():
            if agents[name].is_up:
                await _reslice(gang, gang.parts[name], agents[name], turns)
    except BackendError:
        return  # the next look, or the return of the agent, gives it again
    finally:
        gang.is_delivering = False


async def _let_go(gang: Gang, agents: Mapping[NodeName, NodeAgent]) -> None:
    """Let ranks run, now that all parts have started.

    All are told at once, so that none runs for long alone, and none as long as the agent of one
    is known not to answer. A part that does not hear of it waits until its agent answers, or is
    lost with the others.
    """
    due = gang.goes_due()
    if not all(agents[name].is_up for name in due):
        return

    async def tell(name: NodeName) -> None:
        with suppress(BackendError):
            await _send(gang, gang.parts[name], agents[name], "go")
            agents[name].look(gang.watch.job_id, gang.watch.attempt)

    async with anyio.create_task_group() as tasks:
        for name in due:
            tasks.start_soon(tell, name)


async def end_unbelieved(gang: Gang, agents: Mapping[NodeName, NodeAgent], every_s: float) -> None:
    """End a gang that was set aside, and return once nothing of it runs anywhere."""
    job_id, attempt = gang.watch.job_id, gang.watch.attempt
    waits = list(gang.parts)
    while waits:
        for name in list(waits):
            agent = agents[name]
            is_over = agent.is_lost
            if agent.is_up:
                with suppress(BackendError):
                    answer = await agent.ask(messages.SetAside(job=job_id, attempt=attempt))
                    is_over = answer.is_over
            if is_over:
                waits.remove(name)
        await anyio.sleep(every_s if waits else 0)


async def _fence(gang: Gang, part: Part, agent: NodeAgent) -> None:
    watch = gang.watch

    def on_reply(answer: messages.Fenced) -> None:
        mine = [record for record in answer.fenced if record.attempt == watch.attempt]
        part.learn(agent.localised(mine[0]) if mine else NEVER)

    question = messages.Fence(job=watch.job_id, attempt=watch.attempt)
    await agent.ask(question, on_reply=on_reply)
    part.ordered = "fence"


async def _reshape(
    gang: Gang,
    part: Part,
    agent: NodeAgent,
    shares: messages.Shares,
    tell: Callable[[Gang, ReshapeRefused], None],
) -> None:
    job_id, attempt = gang.watch.job_id, gang.watch.attempt
    answer: messages.ReshapeAnswer | None = None
    try:
        answer = await agent.ask(messages.Reshape(job=job_id, attempt=attempt, shares=shares))
        cause = answer.cause
    except UnreachedError:
        raise
    except BackendError as error:
        cause = str(error)
    part.shares = shares
    if not cause:
        part.has = shares
    if gang.shares.get(agent.name) != shares:  # it was to have others meanwhile, and is asked again
        agent.look(job_id, attempt)
    elif cause:
        wanted = tuple([each for each in gang.given.shares if each.node in agent.nodes])
        kept = shares_kept(wanted, part.has, answer)
        tell(gang, ReshapeRefused(0, job_id, attempt, wanted, kept, cause))


async def _reslice(gang: Gang, part: Part, agent: NodeAgent, turns: PartTurns) -> None:
    watch = gang.watch
    command = messages.Command(
        do="slice",
        weight=turns.weight,
        mask=turns.home,
        pack=turns.pack,
        timetable=turns.timetable,
    )
    question = messages.Send(job=watch.job_id, attempt=watch.attempt, order=command)
    if (await agent.ask(question)).taken:
        part.turns = turns
        agent.look(watch.job_id, watch.attempt)  # it may be to have others meanwhile


async def _send(gang: Gang, part: Part, agent: NodeAgent, order: str) -> None:
    watch = gang.watch
    command = messages.Send(
        job=watch.job_id, attempt=watch.attempt, order=messages.Command(do=order)
    )
    if (await agent.ask(command)).taken:
        part.take(order)
