"""`why --inevitable`, answered: a document, and the same in lines that a person reads.

The answer is the last decision *found*. It names the decisions that were tried, the neighbours of
the one found, and the later ones that were looked at once more.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from shunter.ask.costs import NOT_SLOWED
from shunter.ask.forks.fork import ForkChange, ForkPoint, Wishes, fork_at, fork_point
from shunter.ask.forks.future import Future, Measured, measure
from shunter.ask.forks.inevitable_outcomes import (
    Harm,
    Normal,
    RecordedHarm,
    Watch,
    happened_to,
    normal_wait,
)
from shunter.ask.forks.remaining import WorkEstimates
from shunter.ask.forks.scenario import Staged, assumptions_of, future_of, needs_rerun
from shunter.ask.log_reading import seq_at
from shunter.ask.recorded_terms import Rebuild
from shunter.ask.why import Explanation, Round
from shunter.ask.words import clock, span
from shunter.core import (
    Asked,
    Band,
    Change,
    Job,
    JobLedger,
    Observers,
    Plan,
    Rng,
    Start,
    Suspend,
    View,
)
from shunter.core.planning import Draft, FirstFit, Placement, RoundRules, pools_without_gpus
from shunter.core.ranking import (
    NO_POOL,
    PRIORITY_MOST,
    Entry,
    Ranking,
    band_of,
    ordinal_of,
    pack,
    rank_of,
)
from shunter.counting import counted
from shunter.errors import ConfigError, UsageError
from shunter.events import Allocation, Because, JobId, Reason, SolvedFact, facts
from shunter.events.log import LogReader
from shunter.run import WorldParts, recorded_parts

# One job first, at one decision:
#
#   ranked policies   the job's key is at the head of the order while they plan, and is put back
#   all others        of what their plan leaves free or takes away, the job has the first choice
#
# State and memory keep nothing of it. Since work may be left after this plan, the policy is asked
# again at the next round or event. Pinned jobs keep their GPUs, and a policy that does not preempt
# makes nobody leave: first in the order is not placed yet.

RULE = "placed_first"
"""The rule by which a job starts that a policy without an order was made to place first."""


class PlacedFirst:
    """A policy that has one job first in its first plan at or after an instant.

    `placed_us` is the instant of that plan; None: it was not made yet. `placement` finds the job's
    GPUs under policies without an order. `in_rounds` says that plans are made in rounds.
    """

    def __init__(
        self,
        policy: Asked,
        job_id: JobId,
        from_us: int,
        placement: Placement | None = None,
        *,
        in_rounds: bool = True,
    ) -> None:
        self.name, self.version, self.oracle = policy.name, policy.version, policy.oracle
        self.placed_us: int | None = None
        self._leaves_work = False
        self._in_rounds = in_rounds
        self._policy = policy
        self._job_id = job_id
        self._from_us = from_us
        self._placement = placement or FirstFit()

    @property
    def is_lost(self) -> bool:
        """Whether the policy must begin anew."""
        return self._policy.is_lost

    @property
    def aside(self) -> str:
        """Why the policy is not asked any more."""
        return self._policy.aside

    def start(self, view: View) -> Any:
        """Return the memory of the policy."""
        return self._policy.start(view)

    def observers(self, memory: Any) -> Observers:
        """Return what the policy observes."""
        return self._policy.observers(memory)

    def advance(self, memory: Any, view: View) -> None:
        """Bring the policy's memory up to an instant."""
        self._policy.advance(memory, view)

    def target(self, memory: Any, view: View) -> tuple[facts.Target, ...] | SolvedFact | None:
        """Return what the policy solves for, with the job first where it is."""
        with self._in_front(memory, view):
            return self._policy.target(memory, view)

    def plan(self, memory: Any, view: View, rng: Rng) -> Plan:
        """Return the policy's plan, with the job first where it is."""
        self._leaves_work = self._is_now(view)
        if not self._leaves_work:
            return self._policy.plan(memory, view, rng)
        self.placed_us = view.now_us
        with self._in_front(memory, view):
            plan = self._policy.plan(memory, view, rng)
        job = view.jobs.get(self._job_id)
        if isinstance(memory, Ranking) or job is None:
            return plan
        return with_first_choice(plan, job, view, self._placement)

    def wake_at(self, memory: Any) -> int | None:
        """Return when the policy could decide otherwise: soon, after such a plan."""
        wake_us = self._policy.wake_at(memory)
        if not (self._leaves_work and self._in_rounds) or self.placed_us is None:
            return wake_us
        return self.placed_us + 1 if wake_us is None else min(wake_us, self.placed_us + 1)

    def settled(self, memory: Any) -> bool:
        """Say whether a plan made now could not change anything."""
        return not self._leaves_work and self._policy.settled(memory)

    def _is_now(self, view: View) -> bool:
        """Say whether this is the decision, or one of the same instant."""
        if self.placed_us is None:
            return view.now_us >= self._from_us
        return view.now_us == self.placed_us

    @contextmanager
    def _in_front(self, memory: Any, view: View) -> Iterator[None]:
        """Let the job stand at the head of a ranking for as long as something is asked."""
        entry = memory.entries.get(self._job_id) if isinstance(memory, Ranking) else None
        if entry is None or not self._is_now(view) or band_of(entry.key) == Band.pinned:
            yield
            return
        before = entry.key
        head = pack(Band.starved, PRIORITY_MOST, rank_of(before), ordinal_of(before))
        _put(memory, entry, head)
        try:
            yield
        finally:
            _put(memory, entry, before)


def with_first_choice(plan: Plan, job: Job, view: View, placement: Placement) -> Plan:
    """Return a plan in which a job stays, or starts before all others.

    It has the first choice of what is free and of what those hold that the plan suspends. Who then
    finds no room is refused when the plan is checked.

    Args:
        plan: of a policy without an order.
        job: is to be first.
        view: what the plan was made on.
        placement: finds GPUs.
    """
    job_id = job.job_id
    if job.allocation.shares:
        stay = [each for each in plan.changes if not _leaves(each, job_id)]
        return replace(plan, changes=tuple(stay), is_drafted=False)
    if not job.is_eligible or any(each.job_id == job_id for each in plan.changes):
        return plan
    leaving = [each for each in plan.changes if type(each) is Suspend]
    found = _place_after(leaving, job, view, placement)
    if found is None:
        return plan
    first = Start(job_id, found, Because(RULE))
    rest = [each for each in plan.changes if type(each) is not Suspend]
    waits = tuple(each for each in plan.job_waits if each[0] != job_id)
    return replace(plan, changes=(*leaving, first, *rest), job_waits=waits, is_drafted=False)


def _place_after(
    leaving: Sequence[Suspend], job: Job, view: View, placement: Placement
) -> Allocation | None:
    jobs: Mapping[JobId, Job] = view.jobs
    demand = job.demand
    with Draft(view) as draft:
        for each in leaving:
            draft.free(jobs[each.job_id])
        names = demand.gpu_types or view.pools if demand.gpus else pools_without_gpus(view.pools)
        for name in names:
            if name in view.pools:
                shares = draft.place(placement, name, demand)
                if not isinstance(shares, Reason):
                    return Allocation(shares)
    return None


def _leaves(change: Change, job_id: JobId) -> bool:
    return type(change) is Suspend and change.job_id == job_id


def _put(memory: Ranking, entry: Entry, key: int) -> None:
    """Let a job stand elsewhere in the order, where it runs or waits."""
    waits = entry.pool == NO_POOL
    if waits:
        memory.classes[entry.number].remove(entry.key)
    else:
        memory.unseat(entry)
    entry.key = key
    if waits:
        memory.classes[entry.number].add(key)
    else:
        memory.seat(entry)


# Halving finds the last place only where all that hold come before all that do not. Nothing says so
# of decisions, so what was tried is reported, and later places are looked at once more.

TRIED_MOST = 24
"""So many places are tried at most."""

SPOTS = 3
"""So many places after the one that is found are looked at once more."""

_FIRST_PARTS = 4
_KEPT = SPOTS + 2
"""Tries that halving leaves for the neighbours and the spot checks."""


@dataclass(frozen=True)
class Search:
    """What was found.

    `found` is the last place known to hold, None: none. `tried` says of each place that was tried
    whether it holds. `spots` are the places that were looked at once more. `is_next` says that the
    place right after the one found does not hold, or that there is none.
    """

    found: int | None
    tried: dict[int, bool]
    spots: tuple[int, ...] = ()
    is_next: bool = True

    @property
    def disagreeing(self) -> tuple[int, ...]:
        """The places after the one found that hold as well."""
        if self.found is None:
            return ()
        return tuple(place for place in sorted(self.tried) if place > self.found and self[place])

    def __getitem__(self, place: int) -> bool:
        """Say whether a place that was tried holds."""
        return self.tried[place]


async def find_last(
    count: int, holds: Callable[[int], Awaitable[bool]], most: int = TRIED_MOST
) -> Search:
    """Return the last place found at which something holds.

    Args:
        count: how many places there are.
        holds: says of a place whether it holds there; asked once of each.
        most: how many places may be tried, at least 10.
    """
    tried: dict[int, bool] = {}

    async def ask(place: int) -> bool:
        if place not in tried:
            tried[place] = await holds(place)
        return tried[place]

    if not count:
        return Search(None, tried)
    last = count - 1
    if await ask(last):
        if last:
            await ask(last - 1)
        return Search(last, tried)
    low = None
    for part in range(_FIRST_PARTS):
        if await ask(last * part // _FIRST_PARTS):
            low = last * part // _FIRST_PARTS
            break
    if low is None:
        return Search(None, tried)
    high = last
    while high - low > 1 and len(tried) < most - _KEPT:
        middle = (low + high) // 2
        if await ask(middle):
            low = middle
        else:
            high = middle
    for place in (low - 1, low + 1):
        if place >= 0:
            await ask(place)
    low += tried[low + 1]  # it holds where the row is too long to be halved to its end
    spots = _spots(low + 1, last, tried)
    for place in spots:
        await ask(place)
    return Search(low, tried, spots, tried.get(low + 1) is False)


def _spots(after: int, last: int, tried: dict[int, bool]) -> tuple[int, ...]:
    """Return places between two that were not tried, evenly spaced."""
    room = [place for place in range(after + 1, last) if place not in tried]
    if len(room) <= SPOTS:
        return tuple(room)
    return tuple(room[len(room) * part // (SPOTS + 1)] for part in range(1, SPOTS + 1))


# The moment of a fork is the end of the last step before that of the decision.


@dataclass(frozen=True)
class TriedFork:
    """What came of a fork at a decision; no `decision`: nothing was otherwise in it.

    `is_placed` says that the job had GPUs right after the decision.
    """

    decision: Round | None
    is_spared: bool
    is_placed: bool
    words: str


@dataclass
class Forks:
    """Plays the decisions at which a job is to be placed first.

    `future` is what came after the moment before the first of them, `measured` what a live log
    shows, `drawn` of how many jobs the work was drawn in any fork.
    """

    reader: LogReader
    rebuild: Rebuild
    happened: RecordedHarm
    decisions: Sequence[Round]
    rules: RoundRules
    parts: WorldParts
    future: Future
    first: ForkPoint
    is_rerun: bool
    measured: Measured | None
    drawn: int = 0

    async def as_it_was(self) -> TriedFork:
        """Return what comes of a fork before the first decision with nothing otherwise."""
        return await self._played(self.first, None)

    async def at(self, place: int) -> TriedFork:
        """Return what comes of a fork in which the job is placed first at a decision."""
        decision = self.decisions[place]
        seq = await seq_at(self.reader, decision.at_us - step_us(self.rules))
        point = self.first
        if seq != point.seq:
            point = await fork_point(self.reader, seq, self.rebuild)
        return await self._played(point, decision)

    def assumptions(self) -> Sequence[str]:
        """Return what the forks take for granted."""
        return assumptions_of(
            self.first.started,
            self.parts,
            self.future,
            drawn=self.drawn,
            is_rerun=self.is_rerun,
            removes=False,
        )

    async def _played(self, point: ForkPoint, decision: Round | None) -> TriedFork:
        happened = self.happened
        staged = self._staged(point)
        standing = await staged.standing(self.reader, JobLedger())
        watch = Watch(happened.job_id)
        job = standing.state.jobs.get(happened.job_id)
        if job is not None:
            watch.begin(happened.since_us, has_gpus=bool(job.allocation.shares))
        fork = fork_at(standing, ForkChange())
        core, first = fork.core, None
        if decision is not None:
            placement = getattr(point.policy, "placement", None)
            from_us = _grid_before(self.rules, decision.at_us)
            in_rounds = bool(self.rules.round_us)
            first = PlacedFirst(
                core.asked, happened.job_id, from_us, placement, in_rounds=in_rounds
            )
            core.ask_instead(first)

        def is_enough() -> bool:
            return watch.outcome is not None or happened.is_lost(watch, core.state.now_us)

        await fork.run(happened.until_us, watch, is_enough)
        self.drawn = max(self.drawn, len(staged.estimates.drawn))
        placed_us = None if first is None else first.placed_us
        is_placed = placed_us is not None and watch.has_gpus_at(placed_us)
        is_spared = happened.is_spared(watch)
        return TriedFork(decision, is_spared, is_placed, happened.told(watch))

    def _staged(self, point: ForkPoint) -> Staged:
        state, future = point.state(), self.future
        if not self.is_rerun:
            future = future.after(point.at_us)
        slowed = NOT_SLOWED
        if self.measured is not None:
            self.measured.correct(future, state)
            slowed = self.measured.slowed
        estimates = WorkEstimates(future.ended.values(), point.rules.seed, slowed=slowed)
        return Staged(point, state, self.parts, ForkChange(), future, estimates, self.is_rerun)


async def forks_of(
    reader: LogReader,
    rebuild: Rebuild,
    happened: RecordedHarm,
    decisions: Sequence[Round],
    rules: RoundRules,
) -> Forks:
    """Return the forks of a log at some decisions.

    Args:
        reader: the log.
        rebuild: makes the policy of a term.
        happened: what the job is to be spared.
        decisions: those at which it can be placed first, in order; at least one.
        rules: when plans were made.
    Raises:
        UsageError: the policy has no order in which a job could be first, or could not be asked.
        ConfigError: the log cannot be simulated.
    """
    seq = await seq_at(reader, decisions[0].at_us - step_us(rules))
    point = await fork_point(reader, seq, rebuild)
    if getattr(point.policy, "needs_slicing", False):
        raise UsageError(
            f"policy {point.policy.name} shares GPUs in turns among all that come: no job is first "
            "there, so nothing can be tried; `shunter what-if` tries another policy"
        )
    if point.rules.backend_rounds or not point.encoded_memory:
        raise UsageError(
            f"policy {point.policy.name} cannot be asked at e{seq}: its rounds are those of the "
            "world that ran it, or it was set aside; `shunter why JOB` tells what is recorded"
        )
    parts = recorded_parts(point.started.config)
    is_rerun = needs_rerun(point, parts, Wishes())
    future = await future_of(reader, point, parts, is_rerun=is_rerun)
    measured = None if point.started.simulated else await measure(reader)
    if measured is not None:
        parts = measured.parts(parts)
    return Forks(
        reader, rebuild, happened, decisions, rules, parts, future, point, is_rerun, measured
    )


def step_us(rules: RoundRules) -> int:
    """Return how long before a decision its step may have begun, in microseconds."""
    return max(rules.round_us, 1)


def _grid_before(rules: RoundRules, at_us: int) -> int:
    """Return when a decision was due that a live scheduler made a little late."""
    return at_us // rules.round_us * rules.round_us if rules.round_us else at_us


_SCHEMA = 1
FORKS_MOST = TRIED_MOST + 1
"""The forks with the job first, and one with nothing otherwise."""

_KINDS = frozenset((facts.JobSubmitted.__name__, facts.AllocationChanged.__name__))

Report = Callable[[int, int], None]


async def inevitable(
    reader: LogReader,
    found: Explanation,
    rebuild: Rebuild,
    kind: Harm | None = None,
    within_us: int | None = None,
    report: Report | None = None,
) -> dict[str, Any]:
    """Return the last decision found at which a job, placed first, is spared.

    Args:
        reader: the log.
        found: the job at a moment; nothing later counts as what happened to it.
        rebuild: makes the policy of a term.
        kind: what it is to be spared; None: a missed deadline, a long wait, or a preemption.
        within_us: up to how long a wait is normal; None: as others waited.
        report: told how many forks are done, of how many at most.
    Raises:
        UsageError: there is nothing to be spared, or nothing that could be tried.
        ConfigError: the policy of the log is not installed, or the log cannot be simulated.
    """
    story, (rules, _, problem) = found.story, found.policies.last
    if rules is None:
        raise ConfigError(problem)
    spec = story.spec
    if within_us is None:
        events = [event for _, event in await reader.events_of(_KINDS, story.seq)]
        normal = normal_wait(events, story.job_id, spec.gpus, rules.round_us, story.at_us)
    else:
        normal = Normal(within_us, is_said=True)
    own = [each.event for each in story.own]
    happened = happened_to(own, story.at_us, normal, spec.deadline_us, kind)
    decisions = await _decisions(reader, story.rounds, happened, step_us(rules))
    forks = await forks_of(reader, rebuild, happened, decisions, rules)
    as_it_was = await forks.as_it_was()
    tried: dict[int, TriedFork] = {}

    async def is_spared(place: int) -> bool:
        if report is not None:
            report(len(tried) + 1, FORKS_MOST)
        tried[place] = await forks.at(place)
        return tried[place].is_spared

    search = await find_last(len(decisions), is_spared)
    return _document(forks, search, tried, as_it_was)


async def _decisions(
    reader: LogReader, rounds: Sequence[Round], happened: RecordedHarm, step: int
) -> Sequence[Round]:
    """Return the decisions at which placing a job first may spare it something.

    Those of the first step of a log are left out: there is no moment before.
    """
    first_us = 0
    async for event in reader.events(0, 1):
        first_us = event.at_us
    # The job is first in all decisions of an instant: they are one, and have the first one's name.
    at: dict[int, Round] = {}
    for each in rounds:
        if happened.since_us <= each.at_us <= happened.last_us and each.at_us - step >= first_us:
            at.setdefault(each.at_us, each)
    found = list(at.values())
    if not found:
        raise UsageError(
            f"no decision that could be tried lies between {clock(happened.since_us)} and "
            f"{clock(happened.last_us)}: nobody was placed then, or the log had just begun"
        )
    return found


def _document(
    forks: Forks, search: Search, tried: dict[int, TriedFork], as_it_was: TriedFork
) -> dict[str, Any]:
    happened = forks.happened
    spots = [tried[place] for place in search.spots]
    disagreeing = [tried[place] for place in search.disagreeing]
    return {
        "schema": _SCHEMA,
        "evidence": "simulated",
        "outcome": {
            "kind": str(happened.kind),
            "words": happened.words,
            "since_us": happened.since_us,
            "since": clock(happened.since_us),
            "until_us": happened.until_us,
            "until": clock(happened.until_us),
            "at_us": happened.at_us,
            "normal_us": happened.bound_us,
        },
        "decisions": len(forks.decisions),
        "forks": len(tried) + 1,
        "found": _tried(tried, search.found),
        "before": _tried(tried, None if search.found is None else search.found - 1),
        "next": _tried(tried, None if search.found is None else search.found + 1),
        "is_bracketed": search.is_next,
        "spot_checks": [_one(each) for each in spots],
        "disagreeing": [_one(each) for each in disagreeing],
        "tried": [_one(tried[place]) for place in sorted(tried)],
        "as_it_was": {"agrees": not as_it_was.is_spared, "words": as_it_was.words},
        "words": _lines(forks, search, tried, as_it_was),
        "assumptions": list(forks.assumptions()),
    }


def _tried(tried: dict[int, TriedFork], place: int | None) -> dict[str, Any] | None:
    return _one(tried[place]) if place is not None and place in tried else None


def _one(each: TriedFork) -> dict[str, Any]:
    decision = each.decision
    assert decision is not None, "a decision was tried"
    return {
        "seq": decision.seq,
        "round": decision.number,
        "us": decision.at_us,
        "time": clock(decision.at_us),
        "avoids": each.is_spared,
        "placed": each.is_placed,
        "words": each.words,
    }


def _lines(
    forks: Forks, search: Search, tried: dict[int, TriedFork], as_it_was: TriedFork
) -> list[list[str]]:
    """Return the answer as names and lines."""
    lines = [["to avoid", forks.happened.words]]
    found = search.found
    if found is None:
        lines += _none_found(forks, tried)
    else:
        lines.append(["last found", _in_words(forks, tried[found])])
        if found - 1 in tried:
            lines.append(["one before", _in_words(forks, tried[found - 1])])
        if found + 1 in tried:
            lines.append(["one after", _in_words(forks, tried[found + 1])])
        elif found == len(forks.decisions) - 1:
            lines.append(["one after", "there is none: it was the last decision before that"])
        lines += _spot_lines(forks, search, tried)
    lines.append(["searched", _searched(forks, search, len(tried))])
    same = as_it_was.words
    if as_it_was.is_spared:
        lines.append(["as it was", f"simulated without a change {same}: not what was recorded!"])
    else:
        lines.append(["as it was", f"simulated without a change {same}, as recorded"])
    return lines


def _none_found(forks: Forks, tried: dict[int, TriedFork]) -> list[list[str]]:
    none = f"none of the {len(tried)} decisions that were tried avoids it"
    lines = [["none found", "the one decision does not avoid it" if len(tried) == 1 else none]]
    return lines + [["tried", _in_words(forks, tried[place])] for place in sorted(tried)]


def _spot_lines(forks: Forks, search: Search, tried: dict[int, TriedFork]) -> list[list[str]]:
    """Return what was found of later decisions."""
    lines: list[list[str]] = []
    agreeing = [tried[place] for place in search.spots if not search[place]]
    if agreeing:
        names = ", ".join(_name(each) for each in agreeing)
        avoid = "does not avoid it either" if len(agreeing) == 1 else "do not avoid it either"
        lines.append(["spot checks", f"placed first at {names}: {avoid}"])
    lines += [
        ["disagrees", f"{_in_words(forks, tried[place])}, so the one found is not the last"]
        for place in search.disagreeing
    ]
    if not search.spots and not lines:
        lines.append(["spot checks", "every later decision was tried, or there is none"])
    return lines


def _searched(forks: Forks, search: Search, count: int) -> str:
    total = counted(len(forks.decisions), "decision")
    how = "was tried" if count == 1 else "were tried"
    policy = forks.first.policy.name
    text = (
        f"{count} of {total} {how}, each in a simulation of {policy} from the moment before; at "
        "that one decision the job is first in order, and never after"
    )
    last = len(forks.decisions) - 1
    if count > last or search.found == last:
        return text
    if search.found is None:
        return f"{text}; others may avoid it"
    return (
        f"{text}; between them it is taken that what avoids it comes before what does not, so "
        "a later one that was not tried may avoid it too"
    )


def _in_words(forks: Forks, each: TriedFork) -> str:
    """Return a decision, and what came of placing the job first there."""
    decision, happened = each.decision, forks.happened
    assert decision is not None, "a decision was tried"
    at = f"round {decision.number} at {clock(decision.at_us)} (e{decision.seq})"
    if each.is_spared:
        return f"{at} avoids it: {each.words}"
    waited_us = decision.at_us - happened.since_us
    if happened.kind is Harm.wait and each.is_placed and waited_us > happened.bound_us:
        return f"{at} is too late: by then it has waited {span(waited_us)}"
    there = "it has GPUs there, and yet" if each.is_placed else "even first it finds none, and"
    return f"{at} does not: {there} {each.words}"


def _name(each: TriedFork) -> str:
    assert each.decision is not None, "a decision was tried"
    return f"e{each.decision.seq}"
