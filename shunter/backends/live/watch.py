"""One attempt as the daemon sees it: what its records say, and what was reported."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shunter.backends.live.inbox import Inbox, Stamped
from shunter.backends.node import FACTS, Note, Started, State, Status, boot_id
from shunter.core import AttemptExited, Input
from shunter.events import (
    Allocation,
    AllocationLearned,
    AttemptLost,
    AttemptStarted,
    CheckpointSaved,
    GpusReleased,
    JobContinued,
    JobId,
    JobStopped,
    JobSuspended,
    JobWarned,
    LaunchFailed,
    MessagesDropped,
    NodeName,
    Share,
    SuspendAcknowledged,
    SuspendEscalated,
    SuspendMode,
    TrainingStarted,
    TurnEnded,
    TurnStarted,
)

SET_ASIDE = "set aside"
NOT_BEGUN = "its supervisor was gone before it began"
GONE = "its records are gone"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an attempt stands, a gang as a whole.

    `is_all` says that all its notes were read, `cause` why it is over without a status, or why it
    was given up and has ended itself.
    """

    state: State
    started: Started | None = None
    status: Status | None = None
    is_all: bool = True
    cause: str = ""


class Told(NamedTuple):
    """A note of a journal, whose servers' it is, and if the log has its fact."""

    note: Note
    nodes: tuple[NodeName, ...] = ()
    is_in_log: bool = False


@dataclass(slots=True)
class Watch:
    """An attempt that may run, and what of it was told.

    Of one that was set aside no record is read: it is lost once nothing of it runs. `planned` is
    what it was to be given, where that is known: what it was given is told if it is something else.
    """

    job_id: JobId
    attempt: int
    migrated_from: tuple[NodeName, ...] = ()
    told_start: bool = False
    is_over: bool = False
    is_set_aside: bool = False
    started: Started | None = None
    saved_ns: int | None = None
    planned: Allocation | None = None

    def accepts(self, known: Standing) -> bool:
        """Say whether its notes count by now: whatever it says is told after its start.

        A record may be read before `started` is written, and the journal just after; and one part
        of a gang may train while another has yet to start.
        """
        return self.told_start or self.started is not None or known.started is not None

    @property
    def is_spread(self) -> bool:
        """Whether it is on several servers."""
        return self.planned is not None and self.planned.is_spread

    def nodes_of(self, told: Told) -> tuple[NodeName, ...]:
        """Return the servers that a fact names: none where there is only one."""
        return told.nodes if self.is_spread else ()

    def shares_of(self, mask: int, nodes: Sequence[NodeName] = ()) -> tuple[Share, ...]:
        """Return what it has in a turn on some GPUs of its server, or of nodes."""
        if self.planned is not None and self.is_spread:
            return tuple([share for share in self.planned.shares if share.node in nodes])
        if self.planned is not None:
            share = self.planned.shares[0]
            return (Share(share.node, mask, share.cpus_milli, share.memory_mb),)
        placement = self.started.placement if self.started is not None else ()
        return tuple([Share(NodeName(node), mask) for node, _ in placement[:1]])

    def tell(self, known: Standing, notes: Sequence[Told], inbox: Inbox) -> Iterator[Stamped]:
        """Return what has not been told yet, in order, and note that it has been.

        Args:
            known: what its records say.
            notes: what of its journals was not read before.
            inbox: whose clock counts.
        """
        job_id, attempt, came_from = self.job_id, self.attempt, self.migrated_from
        if self.is_set_aside:
            if known.state == "lost" and not self.is_over:
                self.is_over = True
                yield lambda at_us: AttemptLost(at_us, job_id, attempt, SET_ASIDE)
            return
        self.started = known.started or self.started  # which somebody may have removed
        if self.started is not None and not self.told_start:
            self.told_start = True
            learned = learned_allocation(self.planned, self.started)
            if learned is not None:
                yield lambda at_us: AllocationLearned(at_us, job_id, attempt, learned)
            began_us = _instant_us(self.started.started_ns, self.started, inbox)
            yield lambda at_us: AttemptStarted(
                at_us,
                job_id,
                attempt,
                "",
                came_from,
                may_tell_training=True,
                started_us=began_us if began_us is not None and began_us < at_us else None,
            )
        yield from self._note(notes, inbox)
        if self.is_over or not known.is_all:
            return  # its end comes last
        if known.status is not None and self.started is not None:
            self.is_over = True
            yield from self._end(known.started or self.started, known.status, known.cause, inbox)
        elif known.state == "absent" and not self.told_start:
            self.is_over = True
            why = known.cause or NOT_BEGUN
            yield lambda at_us: LaunchFailed(at_us, job_id, attempt, why)
        elif known.state in ("absent", "lost", "ended"):
            self.is_over = True
            cause = known.cause or ("supervisor lost" if known.state == "lost" else GONE)
            yield lambda at_us: AttemptLost(at_us, job_id, attempt, cause)

    def _note(self, notes: Sequence[Told], inbox: Inbox) -> Iterator[Stamped]:
        """Return the facts of notes, without those that the log has."""
        for told in notes:
            note = told.note
            if note.what == "saved":
                self.saved_ns = note.at_ns
            if note.what not in FACTS or told.is_in_log:
                continue
            yield _fact_of(self, told, max(0, inbox.instant_us(note.at_ns)))

    def _end(self, started: Started, status: Status, cause: str, inbox: Inbox) -> Iterator[Stamped]:
        job_id, attempt = self.job_id, self.attempt
        if status.suspended:
            # Supervisors of earlier versions do not say when it saved last.
            saved_ns = status.saved_ns or self.saved_ns or started.started_ns
            lost_ns = 0 if status.saved else status.ended_ns - saved_ns
            lost_us = max(0, lost_ns // 1000)
            code = 0 if status.is_unfinished else None
            yield lambda at_us: JobSuspended(at_us, job_id, attempt, None, lost_us, cause, code)
            yield lambda at_us: GpusReleased(at_us, job_id, attempt)
        elif status.why in ("heartbeat", "fence"):
            yield lambda at_us: AttemptLost(at_us, job_id, attempt, cause or status.why)
        else:
            ended_us = _instant_us(status.ended_ns, started, inbox)
            yield lambda at_us: AttemptExited(
                at_us,
                job_id,
                attempt,
                status.code,
                released=True,
                ended_us=at_us if ended_us is None else min(ended_us, at_us),
                memory_kills=status.memory_kills or 0,
                signal=status.signal,
            )


def _instant_us(at_ns: int, started: Started, inbox: Inbox) -> int | None:
    """Return the instant that a record of an attempt names; None: not known.

    Its clock began anew if the machine was booted since: then the seeing counts.
    """
    return max(0, inbox.instant_us(at_ns)) if started.boot == boot_id() else None


def learned_allocation(planned: Allocation | None, started: Started) -> Allocation | None:
    """Return what an attempt was given, if that is not what was planned.

    CPUs and memory are as planned: they were asked for, node by node.
    """
    given = started.placement
    if planned is None or len(given) != len(planned.shares):
        return None
    if [(share.node, share.gpu_mask) for share in planned.shares] == [*given]:
        return None
    by_node = {share.node: share for share in planned.shares}
    shares = []
    for share, (name, mask) in zip(planned.shares, given, strict=True):
        node = NodeName(name)
        of = by_node.get(node, share)
        shares.append(Share(node, mask, of.cpus_milli, of.memory_mb))
    return Allocation(tuple(shares))


_PLAIN: Mapping[str, Callable[[int, JobId, int, tuple[NodeName, ...]], Input]] = {
    "acknowledged": SuspendAcknowledged,
    "stopped": JobStopped,
    "training": TrainingStarted,
    "continued": JobContinued,
}
"""The facts that say nothing beside their attempt and servers, by the kinds of notes."""
_OWN = ("escalated", "saved", "refused", "turn_started", "turn_ended", "warned")
assert {*_PLAIN, *_OWN} == set(FACTS), "supervisors count which of their notes become facts"


def _fact_of(watch: Watch, told: Told, noted_us: int) -> Stamped:
    """Return the fact of a note, which was noted at an instant."""
    note, what, job_id, attempt = told.note, told.note.what, watch.job_id, watch.attempt
    nodes = watch.nodes_of(told)
    if what in _PLAIN:
        fact = _PLAIN[what]
        return lambda at_us: fact(at_us, job_id, attempt, nodes)
    if what == "escalated":
        mode = SuspendMode(note.mode or "restart")
        return lambda at_us: SuspendEscalated(at_us, job_id, attempt, mode, nodes)
    if what == "saved":
        saved = note.checkpoint or "", note.step, note.bytes
        return lambda at_us: CheckpointSaved(at_us, job_id, attempt, *saved, nodes)
    if what == "refused":
        count, cause = note.count or 1, note.cause or ""
        return lambda at_us: MessagesDropped(at_us, job_id, attempt, count, cause, nodes)
    if what == "warned":
        text, step = note.text or "", note.step
        return lambda at_us: JobWarned(at_us, job_id, attempt, text, step, nodes)
    if what == "turn_ended":
        return lambda at_us: TurnEnded(
            at_us, job_id, attempt, ended_us=min(noted_us, at_us), nodes=nodes
        )
    shares, can_move = watch.shares_of(note.mask or 0, told.nodes), bool(note.can_move)
    return lambda at_us: TurnStarted(
        at_us, job_id, attempt, shares, began_us=min(noted_us, at_us), can_move=can_move
    )
