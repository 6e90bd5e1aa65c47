"""Which nodes to ask Slurm for, and which to give back: a pure function of what is known.

    waiting jobs ──▶ placed on what is held and asked for ──▶ nodes that lack   ──▶ submit
                                                          └─▶ nodes unneeded for idle_s ──▶ release
    time limits  ──▶ renew_s before the end: a successor is submitted
                 └─▶ drain_s before the end: no new attempts, the running ones are suspended
    reservations ──▶ what is submitted ends before; drain_s before maintenance: as before an end

A node has at most one pilot that holds it and one that waits for it: its successor, which Slurm
starts when the first has ended. Waiting jobs are packed (largest first, on nodes that are held
before others) only to know which nodes are needed; the policy decides where they run. A node is
given back when nothing has needed it for `idle_s` without a break.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from zlib import crc32

from shunter.backends.slurm.answers import duration
from shunter.backends.slurm.commands import reason_in_words
from shunter.backends.slurm.node_service import NodeReservation, least_s
from shunter.backends.slurm.settings import NOTICE_LEAD_MOST_S, SlurmServer
from shunter.events import NodeName

# Pilots and demand. Instants `*_at_s` are of one clock that never goes back.


class PilotState(StrEnum):
    """How far a pilot is; one that has ended is not named any more."""

    ASKED = "asked"
    HELD = "held"
    DRAINING = "draining"


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
class Pilot:
    """A pilot that was submitted and has not ended.

    Args:
        name: its own; that of the Slurm job.
        node: which it asks for or holds.
        state: how far it is; draining once that was decided, or Slurm is about to end it.
        asked_at_s: when it was submitted.
        limit_s: its time limit, from its start.
        started_at_s: when Slurm gave it the node; None while it waits.
        jobs: how many run in it.
        busy_gpus: how many GPUs those hold.
        reason: why Slurm lets it wait, in Slurm's word ("Resources"); "" if that is not known.
    """

    name: str
    node: str
    state: PilotState
    asked_at_s: float
    limit_s: float
    started_at_s: float | None = None
    jobs: int = 0
    busy_gpus: int = 0
    reason: str = ""

    def left_s(self, now_s: float) -> float:
        """Return how much of its time limit is left."""
        return self.limit_s if self.started_at_s is None else self.ends_at_s - now_s

    @property
    def ends_at_s(self) -> float:
        """When its time limit ends it; one that waits has none yet."""
        return float("inf") if self.started_at_s is None else self.started_at_s + self.limit_s


@dataclass(frozen=True, slots=True)
class SubmitRefusals:
    """How often in a row Slurm has refused a pilot for a node, when last, and why."""

    count: int
    last_at_s: float
    cause: str


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

    @property
    def least_s(self) -> float:
        """The shortest time limit that is worth asking for before a reservation."""
        return least_s(self.limit_s)

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


@dataclass(frozen=True, slots=True)
class AllocationView:
    """All that a decision rests on.

    Args:
        now_s: the instant of the decision.
        nodes: those that pilots may ask for.
        pilots: those that have not ended.
        waiting: the jobs that wait for GPUs; those that run are told by `pilots`.
        refusals: of submissions, by node; one that succeeds clears them.
        reservations: the next of each node that has one.
        out_of_service: the nodes on which Slurm starts nothing, each with why.
        spare_since_s: what the decision before returned.
    """

    now_s: float
    nodes: tuple[SlurmServer, ...]
    pilots: tuple[Pilot, ...] = ()
    waiting: tuple[GpuRequest, ...] = ()
    refusals: Mapping[str, SubmitRefusals] = field(default_factory=dict)
    reservations: Mapping[NodeName, NodeReservation] = field(default_factory=dict)
    out_of_service: Mapping[NodeName, str] = field(default_factory=dict)
    spare_since_s: Mapping[str, float] = field(default_factory=dict)

    def reservation(self, node: str) -> NodeReservation | None:
        """Return the next reservation of a node; None if it has none."""
        return self.reservations.get(NodeName(node))

    def limit_s(self, node: str, limits: "AllocationLimits") -> float:
        """Return the time limit of a new pilot, which ends before a reservation begins.

        0: that would be too short to be worth it.
        """
        kept = self.reservation(node)
        if kept is None or (longest_s := kept.limit_s(self.now_s)) >= limits.limit_s:
            return limits.limit_s
        return longest_s if longest_s >= limits.least_s else 0.0


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit a pilot for a node, as the successor of one that holds it if named."""

    node: str
    limit_s: float
    successor_of: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Start no attempt in a pilot any more, and suspend those that run in it."""

    pilot: str
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """Cancel the Slurm job of a pilot, in which nothing runs."""

    pilot: str
    why: str


@dataclass(frozen=True, slots=True)
class Decisions:
    """What to do now, and what to tell people.

    Args:
        submits, drains, releases: in this order.
        spare_since_s: since when each pilot that nothing needs is not needed; for the next view.
        reasons: a sentence for each node: why it is held, waited for, or not asked for.
    """

    submits: tuple[Submit, ...]
    drains: tuple[Drain, ...]
    releases: tuple[Release, ...]
    spare_since_s: Mapping[str, float]
    reasons: Mapping[str, str]


# Why a node is held, awaited or not asked for.

NOTICE_SIGNAL = "SIGUSR1"
SURELY_EARLY_S = 5.0  # before the time limit, by clocks of two machines


def reason_of(
    name: NodeName,
    holder: Pilot | None,
    asked: Pilot | None,
    view: AllocationView,
    limits: AllocationLimits,
    *,
    is_submitted: bool,
    is_unmet: bool,
) -> str:
    """Return why a node can be used, or cannot yet.

    Args:
        name: of the node.
        holder: the pilot that holds it.
        asked: the pilot that waits for it.
        view: what is known.
        limits: the bounds.
        is_submitted: whether it is asked for by this decision.
        is_unmet: whether jobs need it that it is not asked for.
    """
    now_s, slurm, successor = view.now_s, _in_slurm(name, view, limits), ""
    if asked is not None:
        because = f" ({reason_in_words(asked.reason)})" if asked.reason else ""
        ago = duration(now_s - asked.asked_at_s)
        if holder is None:
            return f"waiting for Slurm to give node {name}, asked {ago} ago{because}{slurm}"
        successor = f"; its successor was asked for {ago} ago{because}"
    elif is_submitted and holder is not None:
        successor = "; its successor is asked for now"
    if holder is not None:
        left = duration(holder.left_s(now_s))
        if holder.state is PilotState.DRAINING or holder.left_s(now_s) <= limits.drain_lead_s(
            holder
        ):
            return f"node {name} is drained: {left} of its time limit are left{successor}{slurm}"
        return f"node {name} is held: {left} of its time limit are left{successor}{slurm}"
    if is_submitted:
        return f"Slurm is asked for node {name} now{slurm}"
    if slurm and (name in view.out_of_service or not view.limit_s(name, limits)):
        return slurm.removeprefix("; ")
    refusals = view.refusals.get(name)
    if refusals is not None and now_s < (retry_at_s := limits.retry_at_s(name, refusals)):
        wait = duration(retry_at_s - now_s)
        return f"Slurm refused node {name}: {refusals.cause}; it is asked again in {wait}"
    if is_unmet:
        taken = len({pilot.node for pilot in view.pilots})
        if taken < limits.pilots_max:
            return f"node {name} is asked for soon: {limits.submits_max} are at once"
        return (
            f"node {name} is not asked for: {taken} nodes are held or asked for, of "
            f"{limits.pilots_max} that pilots_max allows"
        )
    return f"node {name} is not asked for: no job that waits needs it"


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


def _in_slurm(name: NodeName, view: AllocationView, limits: AllocationLimits) -> str:
    """Return what Slurm says of a node that bears on its use; nothing if nothing."""
    out, kept = view.out_of_service.get(name, ""), view.reservation(name)
    if not out and kept is not None and kept.start_s - view.now_s < limits.limit_s:
        out = kept.in_words(name)
    return f"; {out}" if out else ""


@dataclass(slots=True)
class _Node:
    """A node as this decision sees it."""

    name: NodeName
    server: SlurmServer
    holder: Pilot | None = None
    asked: Pilot | None = None
    others: list[Pilot] = field(default_factory=list)
    free: int = 0
    is_usable: bool = False
    is_needed: bool = False
    is_new: bool = False

    @property
    def gpus(self) -> int:
        return len(self.server.gpus)

    @property
    def is_taken(self) -> bool:
        return self.holder is not None or self.asked is not None or bool(self.others)

    @property
    def has_jobs(self) -> bool:
        living = [*([self.holder] if self.holder else []), *self.others]
        return any(pilot.jobs for pilot in living)


def decide(view: AllocationView, limits: AllocationLimits) -> Decisions:
    """Return what to do about the pilots of a cluster.

    Two calls on the same view return the same; carried out, the second one does nothing more.
    """
    servers = sorted(view.nodes, key=lambda server: server.name)
    nodes = {str(server.name): _Node(server.name, server) for server in servers}
    drains, releases = _sorted_out(view, limits, nodes)
    room = limits.pilots_max - len({pilot.node for pilot in view.pilots})
    releases += _beyond(nodes, limits, -room)
    unmet = _place(view, limits, nodes, max(0, room))
    submits = _renewals(view, limits, nodes) if room >= 0 else []
    submits += [_first(view, limits, each) for each in nodes.values() if each.is_new]
    submits = submits[: limits.submits_max]
    spare_since_s = _spare(view, nodes)
    releases += _idle(view, limits, spare_since_s)
    leaving = {each.pilot: each for each in reversed(releases)}  # the first reason counts
    asked = {each.node for each in submits}
    unmet |= {name for name, each in nodes.items() if each.is_new}
    reasons = {
        name: reason_of(
            each.name,
            each.holder,
            each.asked,
            view,
            limits,
            is_submitted=name in asked,
            is_unmet=name in unmet,
        )
        for name, each in nodes.items()
    }
    return Decisions(
        tuple(submits),
        tuple(each for each in drains if each.pilot not in leaving),
        tuple(leaving[name] for name in sorted(leaving)),
        spare_since_s,
        reasons,
    )


def _sorted_out(
    view: AllocationView, limits: AllocationLimits, nodes: dict[str, _Node]
) -> tuple[list[Drain], list[Release]]:
    """Give nodes their pilots; return which are to leave whatever the demand is.

    Two that hold one node, or wait for it, come from an answer of sbatch that was lost.
    """
    drains, releases = [], []
    for pilot in sorted(view.pilots, key=lambda pilot: (pilot.asked_at_s, pilot.name)):
        here = nodes.get(pilot.node)
        why = _why_to_leave(pilot, view, limits, is_known=here is not None)
        if pilot.state is PilotState.ASKED:
            if here is None or why:
                releases.append(Release(pilot.name, why))
            elif here.asked is not None:
                twice = f"node {pilot.node} is asked for by pilot {here.asked.name} already"
                releases.append(Release(pilot.name, twice))
            else:
                here.asked = pilot
            continue
        if here is not None:
            drains += _take_holder(
                here, pilot, is_usable=pilot.state is PilotState.HELD and not why
            )
        if pilot.state is PilotState.HELD and why:
            drains.append(Drain(pilot.name, why))
        elif pilot.state is PilotState.DRAINING and not pilot.jobs:
            releases.append(Release(pilot.name, "it is drained: nothing runs in it any more"))
    for each in nodes.values():
        if each.is_usable and each.holder is not None:
            each.free = max(0, each.gpus - each.holder.busy_gpus)
        elif each.asked is not None:
            each.free = each.gpus
    return drains, releases


def _beyond(nodes: dict[str, _Node], limits: AllocationLimits, count: int) -> list[Release]:
    """Return the pilots asked for last, if there are more than are allowed by now."""
    asked = [
        each.asked
        for each in nodes.values()
        if each.asked is not None and each.holder is None and not each.others
    ]
    asked.sort(key=lambda pilot: (-pilot.asked_at_s, pilot.name))
    why = f"pilots_max allows {limits.pilots_max} nodes"
    return [Release(pilot.name, why) for pilot in asked[: max(0, count)]]


def _take_holder(here: _Node, pilot: Pilot, *, is_usable: bool) -> list[Drain]:
    """Make a pilot the one that holds its node, unless a better one does."""
    before = here.holder
    if before is not None and here.is_usable and not is_usable:
        here.others.append(pilot)
        return []
    is_replaced = before is not None and here.is_usable
    here.holder, here.is_usable = pilot, is_usable
    if before is None:
        return []
    here.others.append(before)
    why = f"its successor {pilot.name} holds node {pilot.node}"
    return [Drain(before.name, why)] if is_replaced else []


def _why_to_leave(
    pilot: Pilot, view: AllocationView, limits: AllocationLimits, *, is_known: bool
) -> str:
    if not is_known:
        return f"node {pilot.node} is none of the configured nodes any more"
    kept = view.reservation(pilot.node)
    if kept is not None and _is_too_long_for(pilot, kept, view, limits):
        return kept.in_words(pilot.node)
    if pilot.left_s(view.now_s) <= limits.drain_lead_s(pilot):
        limit, left = duration(pilot.limit_s), duration(pilot.left_s(view.now_s))
        return f"its time limit of {limit} in Slurm ends in {left}"
    return ""


def _is_too_long_for(
    pilot: Pilot, kept: NodeReservation, view: AllocationView, limits: AllocationLimits
) -> bool:
    """Say whether a pilot must leave for a reservation that begins before its end.

    Slurm starts none of those that wait. One that runs may stay unless the node is worked on.
    """
    left_s = kept.start_s - view.now_s
    if pilot.state is PilotState.ASKED:
        return pilot.limit_s > left_s
    ends_in_time = pilot.ends_at_s <= kept.start_s
    return kept.is_maintenance and not ends_in_time and left_s <= limits.drain_lead_s(pilot)


def _place(
    view: AllocationView, limits: AllocationLimits, nodes: dict[str, _Node], room: int
) -> set[str]:
    """Place the waiting jobs; return the nodes that they need beyond the bounds."""
    held_back = {
        name
        for name, refusals in view.refusals.items()
        if view.now_s < limits.retry_at_s(name, refusals)
    }
    held_back |= {name for name in nodes if not view.limit_s(name, limits)}
    unmet: set[str] = set()
    vain: set[GpuRequest] = set()
    for request, fitting in _most_bound_first(view, nodes):
        if request in vain:  # there is less room now than for the one before
            continue
        while not _placed_on_one(request, fitting):
            new = _next_new(request, fitting, view, held_back)
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
                    held_back |= {each.name for each in nodes.values() if not each.is_taken}
                    continue
                room -= 1
            new.is_new, new.free = True, new.gpus
    return unmet


def _most_bound_first(
    view: AllocationView, nodes: dict[str, _Node]
) -> list[tuple[GpuRequest, list[_Node]]]:
    """Return the jobs that could run, and where; those with least choice first.

    Who could run anywhere would otherwise be placed on a node that was asked for on account of one
    who can run only there, and another node would be asked for that one.
    """
    fitting: dict[tuple[frozenset[str], frozenset[str]], list[_Node]] = {}
    for request in view.waiting:
        if (request.gpu_types, request.nodes) not in fitting:
            fitting[request.gpu_types, request.nodes] = [
                each for each in nodes.values() if request.may_use(each.server)
            ]
    most = {key: sum(each.gpus for each in able) for key, able in fitting.items()}
    found = [
        (request, fitting[request.gpu_types, request.nodes])
        for request in view.waiting
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


def _placed_on_one(request: GpuRequest, fitting: list[_Node]) -> bool:
    """Place a job on one node; say if there was room on any."""
    enough = [each for each in fitting if each.free >= request.gpus]
    if not enough:
        return False
    best = min(enough, key=_age_and_fit)
    best.free -= request.gpus
    best.is_needed = True
    return True


def _spread(request: GpuRequest, fitting: list[_Node]) -> None:
    """Take the GPUs of a job from several nodes, as many as there are."""
    left = request.gpus
    for each in sorted(fitting, key=lambda each: (-each.free, each.name)):
        taken = min(left, each.free)
        if taken:
            each.free -= taken
            each.is_needed = True
            left -= taken


def _age_and_fit(each: _Node) -> tuple[bool, float, int, str]:
    """Return what nodes are tried by: held, longest asked for, least room left."""
    asked_at_s = each.asked.asked_at_s if each.asked is not None else float("inf")
    return not each.is_usable, 0.0 if each.is_usable else asked_at_s, each.free, each.name


def _next_new(
    request: GpuRequest, fitting: list[_Node], view: AllocationView, held_back: set[str]
) -> _Node | None:
    """Return the node to ask for next, for a job that has no room on the others."""
    able = [
        each
        for each in fitting
        if not (each.is_new or each.asked or each.is_usable) and each.name not in held_back
    ]

    def rank(each: _Node) -> tuple[object, ...]:
        refusals = view.refusals.get(each.name)
        is_small = each.gpus < request.gpus
        size = -each.gpus if is_small else each.gpus
        return (is_small, each.is_taken, refusals.count if refusals else 0, size, each.name)

    return min(able, key=rank, default=None)


def _renewals(
    view: AllocationView, limits: AllocationLimits, nodes: dict[str, _Node]
) -> list[Submit]:
    """Return the successors that are to be asked for before a time limit ends."""
    found = []
    for name, each in nodes.items():
        holder, refusals = each.holder, view.refusals.get(name)
        if holder is None or each.asked or each.is_new or not (each.is_needed or each.has_jobs):
            continue
        if refusals is not None and view.now_s < limits.retry_at_s(name, refusals):
            continue
        left_s, limit_s = holder.left_s(view.now_s), view.limit_s(name, limits)
        if limit_s and left_s <= limits.renew_lead_s(holder):
            why = f"the time limit of pilot {holder.name} ends in {duration(left_s)}"
            found.append((left_s, Submit(name, limit_s, holder.name, why)))
    return [each for _, each in sorted(found, key=lambda pair: (pair[0], pair[1].node))]


def _first(view: AllocationView, limits: AllocationLimits, each: _Node) -> Submit:
    holder = each.holder.name if each.holder is not None else None
    limit_s = view.limit_s(each.name, limits)
    return Submit(each.name, limit_s, holder, "jobs wait for its GPUs")


def _spare(view: AllocationView, nodes: dict[str, _Node]) -> dict[str, float]:
    """Return since when each pilot that nothing needs has not been needed."""
    needed = {
        name for name, each in nodes.items() if each.is_needed or each.is_new or each.has_jobs
    }
    return {
        pilot.name: view.spare_since_s.get(pilot.name, view.now_s)
        for pilot in sorted(view.pilots, key=lambda pilot: pilot.name)
        if pilot.node not in needed
    }


def _idle(
    view: AllocationView, limits: AllocationLimits, spare_since_s: dict[str, float]
) -> list[Release]:
    """Return the pilots that nothing has needed for long, and in which nothing runs."""
    found = []
    for pilot in view.pilots:
        idle_s = view.now_s - spare_since_s.get(pilot.name, view.now_s)
        if pilot.name in spare_since_s and not pilot.jobs and idle_s >= limits.idle_s:
            why = f"nothing has needed node {pilot.node} for {duration(idle_s)}"
            found.append(Release(pilot.name, why))
    return found
