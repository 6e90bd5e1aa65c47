"""A pilot, from its submission to its end, and which nodes to ask Slurm for or give back.

    waiting jobs ──▶ placed on what is held and asked for ──▶ nodes that lack   ──▶ submit
                                                          └─▶ nodes unneeded for idle_s ──▶ release
    time limits  ──▶ renew_s before the end: a successor is submitted
                 └─▶ drain_s before the end: no new attempts, the running ones are suspended
    reservations ──▶ what is submitted ends before; drain_s before maintenance: as before an end

A node has at most one pilot that holds it and one that waits for it: its successor, which Slurm
starts when the first has ended. Waiting jobs are packed (largest first, on nodes that are held
before others) only to know which nodes are needed; the policy decides where they run. A node is
given back when nothing has needed it for `idle_s` without a break.

In this order: the life of a pilot, what a decision rests on and returns, the decision, its reasons.
Instants `*_at_s` are of one clock that never goes back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final, Literal
from zlib import crc32

from shunter.backends.slurm.answers import SURELY_EARLY_S, QueuedJob, duration
from shunter.backends.slurm.commands import wait_in_words
from shunter.backends.slurm.node_service import Node, SubmitRefusals, least_s
from shunter.backends.slurm.settings import NOTICE_LEAD_MOST_S, SlurmServer
from shunter.events import NodeName


class Phase(StrEnum):
    """How far a pilot is."""

    requested = "requested"  # sbatch was asked for it, and squeue has not shown it yet
    queued = "queued"  # it waits in Slurm's queue
    granted = "granted"  # Slurm has given it its node
    connected = "connected"  # it has dialled in
    draining = "draining"  # it is about to end: it takes no attempts, and suspends those it runs
    ended = "ended"


_WAITS: Final = (Phase.requested, Phase.queued)
_HOLDS: Final = (Phase.granted, Phase.connected, Phase.draining)
"""The phases in which it has its node."""

Change = Literal["waits", "runs", "dials in", "hangs up", "is to end", "runs again", "is gone"]
_LIFE: Final[Mapping[Change, Mapping[Phase, Phase]]] = {
    "waits": {Phase.requested: Phase.queued, Phase.granted: Phase.queued},  # granted: requeued
    "runs": {Phase.requested: Phase.granted, Phase.queued: Phase.granted},
    "dials in": dict.fromkeys((*_WAITS, Phase.granted), Phase.connected),
    "hangs up": {Phase.connected: Phase.granted},
    "is to end": dict.fromkeys((*_WAITS, Phase.granted, Phase.connected), Phase.draining),
    "runs again": {Phase.draining: Phase.requested},
    "is gone": dict.fromkeys((*_WAITS, *_HOLDS), Phase.ended),
}
"""The phase after each change. A phase that a change does not name stays: squeue, which is asked
seldom, may still show one that is connected as one that waits."""

NOTICE_SIGNAL = "SIGUSR1"


@dataclass(slots=True)
class Pilot:
    """A pilot of ours: all that is known of it.

    Args:
        name: its own; that of the Slurm job.
        node: which it asks for or holds.
        asked_at_s: when it was submitted.
        limit_s: its time limit, from its start.
        phase: how far it is.
        started_at_s: when Slurm gave it the node; None while it waits.
        reason: why Slurm lets it wait, in Slurm's word ("Resources"); "" if that is not known.
        drain: why it is about to end; "" if it is not.
        number: of its Slurm job, for people.
        is_listed: whether the last answer of squeue has it. Only then it is cancelled: Slurm uses
            numbers again.
        called_at_s: when sbatch was asked for it, or was given up, which may submit it all the
            same: an answer of squeue from about then says nothing of it.
        restarts: how often Slurm had run it again by then; None: squeue has not shown this run.
        process: the one that dialled in last.
        heard_at_s: when it dialled in last, or was found to be about to end. An answer of squeue to
            an earlier question may be about the run before, so it decides nothing.
        jobs: how many run in it.
        busy_gpus: how many GPUs those hold.
    """

    name: str
    node: NodeName
    asked_at_s: float
    limit_s: float
    phase: Phase = Phase.requested
    started_at_s: float | None = None
    reason: str = ""
    drain: str = ""
    number: int | None = None
    is_listed: bool = False
    called_at_s: float = 0.0
    restarts: int | None = None
    process: str = ""
    heard_at_s: float = 0.0
    jobs: int = 0
    busy_gpus: int = 0

    @property
    def has_begun(self) -> bool:
        """Whether it has its node."""
        return self.phase in _HOLDS

    def left_s(self, now_s: float) -> float:
        """Return how much of its time limit is left."""
        return self.limit_s if self.started_at_s is None else self.ends_at_s - now_s

    @property
    def ends_at_s(self) -> float:
        """When its time limit ends it; one that waits has none yet."""
        return float("inf") if self.started_at_s is None else self.started_at_s + self.limit_s

    def note(self, change: Change) -> None:
        """Go over to the phase after a change."""
        self.phase = _LIFE[change].get(self.phase, self.phase)

    def see(self, job: QueuedJob | None, asked_s: float) -> bool:
        """Take in what squeue says of it; return whether that is not too old.

        Args:
            job: the answer; None: it is not there.
            asked_s: when squeue was asked.
        """
        if job is not None:
            self.number, self.is_listed = job.id, True
        if asked_s < self.heard_at_s:
            return False
        self.is_listed = job is not None
        if job is None:
            return True
        is_other_run = self.restarts is not None and job.restarts > self.restarts
        if is_other_run or (job.is_pending and self.phase is Phase.draining):
            self._run_again()
        self.restarts = job.restarts
        self.asked_at_s = float(job.submit_s or self.asked_at_s)
        self.limit_s = float(job.time_limit_s or self.limit_s)
        if job.is_pending:
            self.note("waits")
            self.started_at_s, self.reason = None, job.reason
        else:
            self.note("runs")
            self.started_at_s = None if job.start_s is None else float(job.start_s)
            self.reason = ""
        return True

    def dial_in(self, process: str, why: str, now_s: float) -> None:
        """Note that it has dialled in.

        Args:
            process: which process of it has: another one than before is another run of the job.
            why: what it says of its end; nothing if no signal has reached it yet, which may be on
                the way to one that is drained.
            now_s: when.
        """
        if self.process != process:
            self.restarts = None  # a run before this one may have been shown
            if self.process and not why:
                self._run_again()
        self.process, self.heard_at_s = process, now_s
        self.note("dials in")

    def begin_drain(self, why: str, now_s: float) -> None:
        """Note why it is about to end; the first reason counts."""
        job = "" if self.number is None else f" (Slurm job {self.number})"
        self.drain = self.drain or f"the pilot on node {self.node}{job} is about to end: {why}"
        self.heard_at_s = now_s
        self.note("is to end")

    def _run_again(self) -> None:
        self.drain = ""
        self.note("runs again")


def announced_end(signal: str, left_s: float, pilot: Pilot, now_s: float) -> str:
    """Return why a pilot is about to end that Slurm has sent a signal.

    Args:
        signal: its name; Slurm sends `NOTICE_SIGNAL` before the time limit, people at any time.
        left_s: how long the pilot lets its jobs save.
        pilot: which.
        now_s: when.
    """
    limit = f"its time limit of {duration(pilot.limit_s)} in Slurm"
    lead_s = NOTICE_LEAD_MOST_S if signal == NOTICE_SIGNAL else SURELY_EARLY_S
    began_s = pilot.asked_at_s if pilot.started_at_s is None else pilot.started_at_s
    if began_s + pilot.limit_s - now_s > lead_s:  # it began then or later
        why = "scancel or preemption"
    elif signal == NOTICE_SIGNAL and pilot.started_at_s is not None:
        why = limit
    else:
        why = f"scancel, preemption or {limit}"
    # SIGTERM may reach the processes of jobs at once; the notice reaches the pilot alone.
    whom = "" if signal == NOTICE_SIGNAL else " to programs that handle it"
    return f"Slurm has sent it {signal} ({why}), which leaves {duration(left_s)}{whom}"


# What a decision rests on, and what it returns.


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """The GPUs that one waiting job needs; an empty set means any."""

    gpus: int
    gpu_types: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()

    def may_use(self, server: SlurmServer) -> bool:
        """Say whether the job could run on a node."""
        return (not self.gpu_types or server.gpu_type in self.gpu_types) and (
            not self.nodes or server.name in self.nodes
        )


@dataclass(frozen=True, slots=True)
class AllocationLimits:
    """The bounds within which nodes are asked for and given back.

    Args:
        pilots_max: how many nodes may be held or asked for at once.
        limit_s: the time limit of a new pilot.
        idle_s: a node that nothing needs is given back after so long.
        drain_s: so long before its end, a pilot takes no attempts and those in it are suspended.
        renew_s: so long before its end, a pilot that is needed gets a successor, which waits in
            Slurm's queue meanwhile; more than `drain_s`.
        submits_max: how many pilots may be submitted by one decision.
        backoff_s: how long to wait after a refusal; twice as long after each further one.
        backoff_s_max: and at most so long.
    """

    pilots_max: int
    limit_s: float = 86_400.0
    idle_s: float = 600.0
    drain_s: float = 300.0
    renew_s: float = 3600.0
    submits_max: int = 8
    backoff_s: float = 10.0
    backoff_s_max: float = 900.0

    def limit_of(self, node: Node, now_s: float) -> float:
        """Return the time limit of a new pilot, which ends before a reservation begins.

        0: that would be too short to be worth it.
        """
        kept = node.reservation
        if kept is None or (longest_s := kept.limit_s(now_s)) >= self.limit_s:
            return self.limit_s
        return longest_s if longest_s >= least_s(self.limit_s) else 0.0

    def drain_lead_s(self, pilot: Pilot) -> float:
        """Return how long before its end a pilot is drained; less for a short one."""
        return min(self.drain_s, pilot.limit_s / 4)

    def renew_lead_s(self, pilot: Pilot) -> float:
        """Return how long before its end a successor is asked for; less for a short one."""
        return min(self.renew_s, pilot.limit_s / 2)

    def retry_at_s(self, node: str, refusals: SubmitRefusals) -> float:
        """Return when a node may be asked for again; not all at once."""
        longest_s = min(self.backoff_s * 2.0 ** min(refusals.count - 1, 30), self.backoff_s_max)
        part = crc32(f"{node}/{refusals.count}".encode()) / 2**32  # the same on every run
        return refusals.last_at_s + longest_s * (1 + part) / 2

    def wait_s(self, node: Node, now_s: float) -> float:
        """Return for how long a node is not asked for again, as Slurm has refused it."""
        if node.refusals is None:
            return 0.0
        return max(0.0, self.retry_at_s(node.name, node.refusals) - now_s)


@dataclass(frozen=True, slots=True)
class AllocationView:
    """All that a decision rests on.

    Args:
        now_s: the instant of the decision.
        nodes: those that pilots may ask for.
        pilots: those that have not ended.
        waiting: the jobs that wait for GPUs; of those that run, pilots say how many they are.
        spare_since_s: what the decision before returned.
    """

    now_s: float
    nodes: tuple[Node, ...]
    pilots: tuple[Pilot, ...] = ()
    waiting: tuple[GpuRequest, ...] = ()
    spare_since_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decisions:
    """What to do now, and why.

    Args:
        submits: for which nodes to submit pilots, each with its time limit.
        drains: which pilots are to start no attempt any more and to suspend those that run, and
            why.
        releases: of which pilots, in which nothing runs, to cancel the Slurm job, and why.
        spare_since_s: since when each pilot that nothing needs is not needed; for the next view.
        reasons: a sentence for each node: why it is held, waited for, or not asked for.
    """

    submits: Mapping[NodeName, float]
    drains: Mapping[str, str]
    releases: Mapping[str, str]
    spare_since_s: Mapping[str, float]
    reasons: Mapping[NodeName, str]


def decide(view: AllocationView, limits: AllocationLimits) -> Decisions:
    """Return what to do about the pilots of a cluster.

    Two calls on the same view return the same; carried out, the second one does nothing more.
    """
    return _Decision(view, limits).made()


@dataclass(slots=True)
class _Place:
    """A node with its pilots, and what is decided about it."""

    node: Node
    name: NodeName
    holder: Pilot | None = None
    asked: Pilot | None = None
    others: list[Pilot] = field(default_factory=list)
    free: int = 0
    is_usable: bool = False
    is_needed: bool = False
    is_new: bool = False

    @property
    def gpus(self) -> int:
        return len(self.node.server.gpus)

    @property
    def is_taken(self) -> bool:
        return self.holder is not None or self.asked is not None or bool(self.others)

    @property
    def has_jobs(self) -> bool:
        living = [*([self.holder] if self.holder else []), *self.others]
        return any(pilot.jobs for pilot in living)


class _Decision:
    """One decision while it is made.

    Of several reasons for which a pilot is to leave, the first one counts.
    """

    def __init__(self, view: AllocationView, limits: AllocationLimits) -> None:
        self._view, self._limits = view, limits
        nodes = sorted(view.nodes, key=lambda node: node.name)
        self._places = {node.name: _Place(node, node.name) for node in nodes}
        self._pilots = sorted(view.pilots, key=lambda pilot: (pilot.asked_at_s, pilot.name))
        self._drains: dict[str, str] = {}
        self._releases: dict[str, str] = {}

    def made(self) -> Decisions:
        self._sort_out()
        places = self._places.values()
        room = self._limits.pilots_max - len({pilot.node for pilot in self._pilots})
        self._release_beyond(-room)
        unmet = self._place_jobs(max(0, room))
        found = self._renewals() if room >= 0 else []
        found += [place for place in places if place.is_new]
        submits = {
            place.name: self._limits.limit_of(place.node, self._view.now_s)
            for place in islice(found, self._limits.submits_max)
        }
        spare_since_s = self._spare_since_s()
        self._release_idle(spare_since_s)
        return Decisions(
            submits,
            {name: why for name, why in self._drains.items() if name not in self._releases},
            dict(sorted(self._releases.items())),
            spare_since_s,
            {
                place.name: self._reason(
                    place,
                    is_submitted=place.name in submits,
                    is_unmet=place.is_new or place.name in unmet,
                )
                for place in places
            },
        )

    def _sort_out(self) -> None:
        """Give nodes their pilots; note which are to leave whatever the demand is.

        Two that hold one node, or wait for it, come from an answer of sbatch that was lost.
        """
        for pilot in self._pilots:
            here = self._places.get(pilot.node)
            why = self._why_to_leave(pilot, here)
            if not pilot.has_begun:
                if not why and here is not None and here.asked is not None:
                    why = f"node {pilot.node} is asked for by pilot {here.asked.name} already"
                if why:
                    self._releases.setdefault(pilot.name, why)
                elif here is not None:
                    here.asked = pilot
                continue
            is_draining = pilot.phase is Phase.draining
            if here is not None:
                self._give(here, pilot, is_usable=not is_draining and not why)
            if not is_draining and why:
                self._drains.setdefault(pilot.name, why)
            elif is_draining and not pilot.jobs:
                why = "it is drained: nothing runs in it any more"
                self._releases.setdefault(pilot.name, why)
        for place in self._places.values():
            if place.is_usable and place.holder is not None:
                place.free = max(0, place.gpus - place.holder.busy_gpus)
            elif place.asked is not None:
                place.free = place.gpus

    def _give(self, here: _Place, pilot: Pilot, *, is_usable: bool) -> None:
        """Make a pilot the one that holds its node, unless a better one does."""
        before, was_usable = here.holder, here.is_usable
        if before is not None and was_usable and not is_usable:
            here.others.append(pilot)
            return
        here.holder, here.is_usable = pilot, is_usable
        if before is not None:
            here.others.append(before)
            if was_usable:
                why = f"its successor {pilot.name} holds node {pilot.node}"
                self._drains.setdefault(before.name, why)

    def _why_to_leave(self, pilot: Pilot, here: _Place | None) -> str:
        now_s = self._view.now_s
        if here is None:
            return f"node {pilot.node} is none of the configured nodes any more"
        kept = here.node.reservation
        if kept is not None:
            kept_in_s = kept.start_s - now_s
            if not pilot.has_begun:  # Slurm would not start it
                must_leave = pilot.limit_s > kept_in_s
            else:  # it may stay unless the node is worked on
                is_soon = kept_in_s <= self._limits.drain_lead_s(pilot)
                must_leave = kept.is_maintenance and pilot.ends_at_s > kept.start_s and is_soon
            if must_leave:
                return kept.in_words(pilot.node)
        left_s = pilot.left_s(now_s)
        if left_s <= self._limits.drain_lead_s(pilot):
            limit = duration(pilot.limit_s)
            return f"its time limit of {limit} in Slurm ends in {duration(left_s)}"
        return ""

    def _release_beyond(self, count: int) -> None:
        """Release the pilots asked for last, if there are more than are allowed by now."""
        asked = [
            place.asked
            for place in self._places.values()
            if place.asked is not None and place.holder is None and not place.others
        ]
        asked.sort(key=lambda pilot: (-pilot.asked_at_s, pilot.name))
        for pilot in asked[: max(0, count)]:
            why = f"pilots_max allows {self._limits.pilots_max} nodes"
            self._releases.setdefault(pilot.name, why)

    def _place_jobs(self, room: int) -> set[NodeName]:
        """Place the waiting jobs; return the nodes that they need beyond the bounds."""
        places, now_s = self._places.values(), self._view.now_s
        held_back = {
            place.name
            for place in places
            if self._limits.wait_s(place.node, now_s)
            or not self._limits.limit_of(place.node, now_s)
        }
        unmet: set[NodeName] = set()
        vain: set[GpuRequest] = set()
        for request, fitting in self._most_bound_first():
            if request in vain:  # there is less room now than for the one before
                continue
            while not _placed_on_one(request, fitting):
                new = _next_new(request, fitting, held_back)
                is_split = new is None or new.gpus < request.gpus
                if is_split and sum(each.free for each in fitting) >= request.gpus:
                    _spread(request, fitting)
                    break
                if new is None:
                    unmet |= {each.name for each in fitting if not each.is_taken}
                    _spread(request, fitting)
                    vain.add(request)
                    break
                if not new.is_taken:
                    if room < 1:
                        held_back |= {each.name for each in places if not each.is_taken}
                        continue
                    room -= 1
                new.is_new, new.free = True, new.gpus
        return unmet

    def _most_bound_first(self) -> list[tuple[GpuRequest, list[_Place]]]:
        """Return the jobs that could run, and where; those with least choice first.

        Who could run anywhere would otherwise be placed on a node that was asked for on account of
        one who can run only there, and another node would be asked for that one.
        """
        fitting: dict[tuple[frozenset[str], frozenset[str]], list[_Place]] = {}
        for request in self._view.waiting:
            if (request.gpu_types, request.nodes) not in fitting:
                fitting[request.gpu_types, request.nodes] = [
                    each for each in self._places.values() if request.may_use(each.node.server)
                ]
        most = {key: sum(each.gpus for each in able) for key, able in fitting.items()}
        found = [
            (request, fitting[request.gpu_types, request.nodes])
            for request in self._view.waiting
            if 0 < request.gpus <= most[request.gpu_types, request.nodes]
        ]
        return sorted(
            found,
            key=lambda pair: (
                len(pair[1]),
                -pair[0].gpus,
                sorted(pair[0].gpu_types),
                sorted(pair[0].nodes),
            ),
        )

    def _renewals(self) -> list[_Place]:
        """Return the nodes whose pilots need successors before a time limit ends."""
        found, now_s = [], self._view.now_s
        for place in self._places.values():
            holder = place.holder
            is_needed = place.is_needed or place.has_jobs
            if holder is None or place.asked or place.is_new or not is_needed:
                continue
            left_s = holder.left_s(now_s)
            if (
                left_s <= self._limits.renew_lead_s(holder)
                and not self._limits.wait_s(place.node, now_s)
                and self._limits.limit_of(place.node, now_s)
            ):
                found.append((left_s, place.name))
        return [self._places[name] for _, name in sorted(found)]

    def _spare_since_s(self) -> dict[str, float]:
        """Return since when each pilot that nothing needs has not been needed."""
        needed = {
            place.name
            for place in self._places.values()
            if place.is_needed or place.is_new or place.has_jobs
        }
        return {
            pilot.name: self._view.spare_since_s.get(pilot.name, self._view.now_s)
            for pilot in self._pilots
            if pilot.node not in needed
        }

    def _release_idle(self, spare_since_s: Mapping[str, float]) -> None:
        """Release the pilots that nothing has needed for long, and in which nothing runs."""
        for pilot in self._pilots:
            idle_s = self._view.now_s - spare_since_s.get(pilot.name, self._view.now_s)
            if pilot.name in spare_since_s and not pilot.jobs and idle_s >= self._limits.idle_s:
                why = f"nothing has needed node {pilot.node} for {duration(idle_s)}"
                self._releases.setdefault(pilot.name, why)

    def _reason(self, place: _Place, *, is_submitted: bool, is_unmet: bool) -> str:
        """Return why a node can be used, or cannot yet.

        Args:
            place: the node.
            is_submitted: whether it is asked for by this decision.
            is_unmet: whether jobs need it that it is not asked for.
        """
        now_s, limits, name = self._view.now_s, self._limits, place.name
        holder, asked, slurm = place.holder, place.asked, self._in_slurm(place.node)
        successor = ""
        if asked is not None:
            ago = wait_in_words(now_s - asked.asked_at_s, asked.reason)
            if holder is None:
                return f"waiting for Slurm to give node {name}, asked {ago}{slurm}"
            successor = f"; its successor was asked for {ago}"
        elif is_submitted and holder is not None:
            successor = "; its successor is asked for now"
        if holder is not None:
            left_s = holder.left_s(now_s)
            drains = holder.phase is Phase.draining or left_s <= limits.drain_lead_s(holder)
            is_ = "drained" if drains else "held"
            left = f"{duration(left_s)} of its time limit are left"
            return f"node {name} is {is_}: {left}{successor}{slurm}"
        if is_submitted:
            return f"Slurm is asked for node {name} now{slurm}"
        if slurm and (place.node.out or not limits.limit_of(place.node, now_s)):
            return slurm.removeprefix("; ")
        if wait_s := limits.wait_s(place.node, now_s):
            cause = "" if place.node.refusals is None else place.node.refusals.cause
            return f"Slurm refused node {name}: {cause}; it is asked again in {duration(wait_s)}"
        if is_unmet:
            taken = len({pilot.node for pilot in self._pilots})
            if taken < limits.pilots_max:
                return f"node {name} is asked for soon: {limits.submits_max} are at once"
            return (
                f"node {name} is not asked for: {taken} nodes are held or asked for, of "
                f"{limits.pilots_max} that pilots_max allows"
            )
        return f"node {name} is not asked for: no job that waits needs it"

    def _in_slurm(self, node: Node) -> str:
        """Return what Slurm says of a node that bears on its use; nothing if nothing."""
        out, kept = node.out, node.reservation
        if not out and kept is not None and kept.start_s - self._view.now_s < self._limits.limit_s:
            out = kept.in_words(node.name)
        return f"; {out}" if out else ""


def _placed_on_one(request: GpuRequest, fitting: list[_Place]) -> bool:
    """Place a job on one node; say if there was room on any."""
    enough = [each for each in fitting if each.free >= request.gpus]
    if not enough:
        return False
    best = min(enough, key=_age_and_fit)
    best.free -= request.gpus
    best.is_needed = True
    return True


def _spread(request: GpuRequest, fitting: list[_Place]) -> None:
    """Take the GPUs of a job from several nodes, as many as there are."""
    left = request.gpus
    for each in sorted(fitting, key=lambda each: (-each.free, each.name)):
        taken = min(left, each.free)
        if taken:
            each.free -= taken
            each.is_needed = True
            left -= taken


def _age_and_fit(each: _Place) -> tuple[bool, float, int, str]:
    """Return what nodes are tried by: held, longest asked for, least room left."""
    asked_at_s = each.asked.asked_at_s if each.asked is not None else float("inf")
    return not each.is_usable, 0.0 if each.is_usable else asked_at_s, each.free, each.name


def _next_new(
    request: GpuRequest, fitting: list[_Place], held_back: set[NodeName]
) -> _Place | None:
    """Return the node to ask for next, for a job that has no room on the others."""
    able = [
        each
        for each in fitting
        if not (each.is_new or each.asked or each.is_usable) and each.name not in held_back
    ]

    def rank(each: _Place) -> tuple[object, ...]:
        refusals = each.node.refusals
        is_small = each.gpus < request.gpus
        size = -each.gpus if is_small else each.gpus
        return (is_small, each.is_taken, refusals.count if refusals else 0, size, each.name)

    return min(able, key=rank, default=None)
