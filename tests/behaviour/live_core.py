"""A live core under a script: what people order, what backends see, and what becomes of it.

What a backend does by itself is done here: an attempt starts, leaves or ends as soon as it is
told to, or so much later as the script says. Clauses of a scene, beside those of `waits_scenes`:

    live, bounds_departures=yes             the rules that differ from those of a simulation
    launches take 3; leaving takes 2        from order to observation; `ending takes 5`
    j0 cannot be launched until 5s          `from 3s until 5s`; `j0 can never be launched`
    j0 exits with 1 at 5                    `with nothing`: nobody saw the code
    j0 leaves at 5; j0 saves step 7 at 4    by itself; `j0 is ended by Slurm at 5`
    j0 leaves with 0 at 5                   where it was to leave, and had not finished
    j0 is done with 1 at 5; j0 is gone at 6  ended, and its GPUs are free later; `begins to leave`
    j0 is lost at 5; j0 is not launched at 5
    j0 is not launched for n0 at 5          its checkpoint could not be brought from there
    j0 is too large to leave n0             no launch elsewhere succeeds that needs a copy
    n0 is lost at 6; n0 is silent at 7; n0 answers at 8
    j0 is found on n1[0-3] at 5             elsewhere than it was to start
    strangers take n0[0-1] and 3 CPUs and 40 MB at 5
    j0 has started at 5, seen at 9
    live, decentralised=yes; ana proposes j0 on n0[0-1] or n1[0-1] at 5
"""

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shunter.core import (
    AttemptExited,
    Command,
    Input,
    JobPhase,
    Launch,
    Policy,
    ProposeGang,
    Resume,
    Scheduler,
    SubmitJob,
    SuspendAttempt,
    Terminate,
)
from shunter.core.planning import KEPT, NOT_ADMITTED
from shunter.events import BACKING_OFF, Allocation, Event, JobId, NodeName, facts
from shunter.workloads import TraceJob
from tests.factories import World, allocation, scheme
from tests.replay.eventful_run import RECORD, S
from tests.replay.recording import Recorded, named, rebuilt

Resumed = dict[tuple[JobId, int], tuple[tuple[NodeName, ...], ...]]
"""Where the attempts of jobs find checkpoints, the newest first."""
Seen = Callable[[int, Scheduler], list[Input]]
"""What is seen at an instant, given the state at that time."""

_TAKES = re.compile(r"(launches|leaving|ending) takes? (\d+s?)")
_FAILS = re.compile(
    r"(\w+) (?:cannot be launched (?:from (\d+s?) )?until (\d+s?)|can never be launched)"
)
_SEEN = re.compile(
    r"(\w+) (exits with|is done with|is gone|leaves|leaves with|begins to leave|is ended by"
    r"|saves step|is lost|is not launched|is not launched for|is silent|answers)"
    r"(?: (\w+))? at (\d+s?)"
)
_FOUND = re.compile(r"(\w+) is found on (\S+) at (\d+s?)")
_TAKEN = re.compile(
    r"strangers take (\w+)(?:\[(\S+)\])?(?: and (\d+) CPUs)?(?: and (\d+) MB)? at (\d+s?)"
)
_STARTED = re.compile(r"(\w+) has started at (\d+s?), seen at (\d+s?)")
_PROPOSED = re.compile(r"(\w+) proposes (\w+) on (.+) at (\d+s?)")
_STAYS = re.compile(r"(\w+) is too large to leave (\w+)")


def us(text: str) -> int:
    """Return an instant or a duration in microseconds; `3s` are seconds, `3m` minutes."""
    unit_us = {"s": 1_000_000, "m": 60_000_000}.get(text[-1])
    return int(text) if unit_us is None else int(text[:-1]) * unit_us


@dataclass(frozen=True)
class LiveRecorded(Recorded):
    """What was recorded of a live core, and what its backend was told of checkpoints."""

    resumed: Resumed


@dataclass
class LiveScript:
    """The clauses of a live scene that no simulation has."""

    rules: dict[str, Any]
    takes_us: dict[str, int] = field(default_factory=dict)
    unlaunched: dict[JobId, list[range]] = field(default_factory=dict)
    stays: dict[JobId, NodeName] = field(default_factory=dict)
    seen: list[tuple[int, Seen]] = field(default_factory=list)

    def takes(self, clause: str) -> bool:
        """Read one clause; say whether it is one of these."""
        if found := _TAKES.fullmatch(clause):
            self.takes_us[found[1]] = us(found[2])
        elif found := _FAILS.fullmatch(clause):
            when = range(us(found[2] or "0"), us(found[3])) if found[3] else range(0)
            self.unlaunched.setdefault(JobId(found[1]), []).append(when)
        elif found := _STAYS.fullmatch(clause):
            self.stays[JobId(found[1])] = NodeName(found[2])
        elif found := _FOUND.fullmatch(clause):
            self.seen.append((us(found[3]), _found_on(found[1], found[2])))
        elif found := _TAKEN.fullmatch(clause):
            node, gpus, cpus, memory_mb, at = found.groups()
            beside = (int(cpus or 0) * 1000, int(memory_mb or 0))
            taken = facts.GpusTaken(us(at), NodeName(node), mask_of(gpus or ""), "others", *beside)
            self.seen.append((us(at), _given(taken)))
        elif found := _STARTED.fullmatch(clause):
            self.seen.append((us(found[3]), _started(found[1], us(found[2]))))
        elif found := _PROPOSED.fullmatch(clause):
            by, name, places, at = found.groups()
            candidates = tuple(place_of(each) for each in places.split(" or "))
            proposal = ProposeGang(us(at), JobId(name), 1, candidates, by)
            self.seen.append((us(at), _given(proposal)))
        elif found := _SEEN.fullmatch(clause):
            name, what, value, at = found.groups()
            self.seen.append((us(at), _observation(name, what, value or "")))
        else:
            return False
        return True

    def played(
        self, jobs: tuple[TraceJob, ...], orders: list[Command], by: str | Policy[Any], **world: Any
    ) -> LiveRecorded:
        """Return what is recorded up to the last clause, or up to `until_us` of the world."""
        chosen: Any = named(by) if isinstance(by, str) else by
        if self.rules.pop("decentralised", False):
            how = scheme(built_in=False, retry_us=S, retry_most_us=8 * S, reserve_for_us=30 * S)
            world["decentralised"], chosen = how, chosen.with_scheme(how)
        made = World(is_live=True, **self.rules, **world)
        core, events = made.scheduler(chosen, instant=False)
        events = [
            replace(event, config=RECORD) if isinstance(event, facts.SchedulerStarted) else event
            for event in events
        ]
        agenda = _Agenda()
        for job in jobs:
            submitted = SubmitJob(job.submit_us, job.job_id, job.spec)
            agenda.add(job.submit_us, _given(submitted))
        for order in orders:
            agenda.add(order.at_us, _given(order))
        for at_us, seen in self.seen:
            agenda.add(at_us, seen)
        until_us = made.until_us if made.until_us is not None else agenda.last_us()
        now_us, resumed = 0, Resumed()
        while (at_us := agenda.next_us(core.deadline_us(now_us))) <= until_us:
            now_us = at_us
            told, effects = core.step(now_us, agenda.due(now_us, core))
            events += told
            for effect in effects:
                self._answer(effect, now_us, agenda)
                if isinstance(effect, Resume) and effect.checkpoints is not None:
                    resumed[effect.job_id, effect.attempt] = effect.checkpoints
        return LiveRecorded(events, rebuilt(chosen, core.rules), resumed)

    def _answer(self, effect: object, now_us: int, agenda: "_Agenda") -> None:
        """Put what a backend will see of an order on the agenda."""
        if isinstance(effect, Launch | Resume):
            when = self.unlaunched.get(effect.job_id, [])
            if range(0) in when or any(now_us in each for each in when):
                can_be = range(0) not in when
                no = facts.LaunchFailed(0, effect.job_id, effect.attempt, "no", can_be)
                agenda.add(now_us, _of_attempt(no))
            elif isinstance(effect, Resume) and self._is_bound(effect):
                home, why = self.stays[effect.job_id], "too large"
                no = facts.LaunchFailed(0, effect.job_id, effect.attempt, why)
                no = replace(no, checkpoint_on=(home,), checkpoint_stays=True)
                agenda.add(now_us, _of_attempt(no))
            else:
                begun = facts.AttemptStarted(0, effect.job_id, effect.attempt)
                agenda.add(now_us + self.takes_us.get("launches", 0), _of_attempt(begun))
        elif isinstance(effect, SuspendAttempt):
            name, attempt = effect.job_id, effect.attempt
            left = (facts.JobSuspended(0, name, attempt), facts.GpusReleased(0, name, attempt))
            agenda.add(now_us + self.takes_us.get("leaving", 0), _of_attempt(*left))
        elif isinstance(effect, Terminate) and effect.attempt:
            ended = AttemptExited(0, effect.job_id, effect.attempt, 143, released=True)
            agenda.add(now_us + self.takes_us.get("ending", 0), _of_attempt(ended))

    def _is_bound(self, effect: Resume) -> bool:
        """Say whether a checkpoint is too large to be brought where a job is launched."""
        home = self.stays.get(effect.job_id)
        here = {share.node for share in effect.allocation.shares}
        return bool(home) and bool(effect.checkpoints) and here != {home}


class _Agenda:
    """What is still to be seen, in order."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Seen]] = []
        self._count = 0

    def add(self, at_us: int, seen: Seen) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at_us, self._count, seen))

    def last_us(self) -> int:
        return max(at_us for at_us, _, _ in self._heap)

    def next_us(self, deadline_us: int | None) -> int:
        instants = [at_us for at_us, _, _ in self._heap[:1]]
        return min([*instants, *([] if deadline_us is None else [deadline_us]), *[1 << 60]])

    def due(self, now_us: int, core: Scheduler) -> list[Input]:
        """Return all that is seen at an instant, but for answers to what it leads to."""
        found: list[Input] = []
        while self._heap and self._heap[0][0] <= now_us:
            found += heapq.heappop(self._heap)[2](now_us, core)
        return found


def _given(what: Input) -> Seen:
    return lambda _, __: [what]


def _of_attempt(*inputs: Any) -> Seen:
    """Return what is seen of an attempt, if it is still there by then."""

    def seen(at_us: int, core: Scheduler) -> list[Input]:
        job = core.state.jobs.get(inputs[0].job_id)
        is_there = job is not None and job.attempt == inputs[0].attempt
        if job is not None and isinstance(inputs[0], facts.AttemptStarted | facts.LaunchFailed):
            is_there = is_there and job.phase is JobPhase.launching
        if job is not None and job.phase is JobPhase.waiting:
            is_there = False
        return [replace(one, at_us=at_us) for one in inputs] if is_there else []

    return seen


def mask_of(text: str) -> int:
    """Return the mask of GPUs as they are written: `0-1,3`."""
    found = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= sum(1 << gpu for gpu in range(int(first), int(last or first) + 1))
    return found


def place_of(text: str) -> Allocation:
    """Return GPUs as they are written: `n0[0-1]+n1[0]`."""
    parts = [each.rstrip("]").partition("[") for each in text.split("+")]
    return allocation(**{node: mask_of(gpus) for node, _, gpus in parts})


def _found_on(name: str, place: str) -> Seen:
    def seen(at_us: int, core: Scheduler) -> list[Input]:
        job = core.state.jobs.get(JobId(name))
        attempt = 1 if job is None else job.attempt
        return [facts.AllocationLearned(at_us, JobId(name), attempt, place_of(place))]

    return seen


def _started(name: str, began_us: int) -> Seen:
    def seen(at_us: int, core: Scheduler) -> list[Input]:
        attempt = core.state.jobs[JobId(name)].attempt
        return [facts.AttemptStarted(at_us, JobId(name), attempt, started_us=began_us)]

    return seen


def _observation(name: str, what: str, value: str) -> Seen:
    def of_server(at_us: int, _: Scheduler) -> list[Input]:
        node = NodeName(name)
        made: dict[str, Any] = {
            "is lost": facts.NodeLost,
            "is silent": facts.NodeUnreachable,
            "answers": facts.NodeReachable,
        }
        return [made[what](at_us, node)]

    def of_job(at_us: int, core: Scheduler) -> list[Input]:
        job = JobId(name)
        attempt = core.state.jobs[job].attempt
        code = int(value) if value.isdigit() else None
        gone = facts.GpusReleased(at_us, job, attempt)
        made: dict[str, list[Input]] = {
            "exits with": [AttemptExited(at_us, job, attempt, code, released=True)],
            "is done with": [AttemptExited(at_us, job, attempt, code)],
            "is gone": [gone],
            "leaves": [facts.JobSuspended(at_us, job, attempt), gone],
            "leaves with": [facts.JobSuspended(at_us, job, attempt, exit_code=code), gone],
            "begins to leave": [facts.JobSuspended(at_us, job, attempt)],
            "is ended by": [facts.JobSuspended(at_us, job, attempt, cause="its limit"), gone],
            "saves step": [facts.CheckpointSaved(at_us, job, attempt, "", code)],
            "is not launched": [facts.LaunchFailed(at_us, job, attempt, "no")],
            "is not launched for": [
                facts.LaunchFailed(at_us, job, attempt, "cut", checkpoint_on=(NodeName(value),))
            ],
            "is lost": [facts.AttemptLost(at_us, job, attempt, "supervisor lost")],
        }
        return made[what]

    return of_server if name.startswith("n") else of_job


def life_of(events: Sequence[Event], job: JobId, resumed: Resumed) -> str:
    """Return what a log says of a job, in words: `5s: attempt 1 starts; 9s: …`."""
    moments: dict[int, list[str]] = {}
    for event in events:
        for words in _words(event, job):
            if isinstance(event, facts.AttemptStarted) and (job, event.attempt) in resumed:
                words += _from(resumed[job, event.attempt])
            moments.setdefault(event.at_us, []).append(words)
    told = "; ".join(f"{_at(at_us)}: {', '.join(words)}" for at_us, words in moments.items())
    return re.sub(r"gets (\S+), ((?:gives \S+ up, )*)(attempt \d+ starts)", r"\2\3 on \1", told)


def _from(places: tuple[tuple[NodeName, ...], ...]) -> str:
    """Return where an attempt finds its checkpoints, the newest first."""
    return f" from {' or '.join('+'.join(nodes) for nodes in places)}" if places else " anew"


def _at(at_us: int) -> str:
    seconds, rest = divmod(at_us, 1_000_000)
    return f"{seconds}s" if seconds and not rest else f"{seconds}s {rest}" if seconds else str(rest)


def _words(event: Any, job: JobId) -> Iterator[str]:
    """Yield an event in words if it is of a job."""
    if getattr(event, "job_id", None) != job:
        return
    match event:
        case facts.JobSubmitted():
            yield "submitted"
        case facts.AllocationChanged():
            gpus = gpus_of(event.allocation)
            yield f"gets {gpus}" if gpus else event.because.rule
        case facts.AttemptStarted():
            yield f"attempt {event.attempt} starts"
        case facts.JobHeld():
            until = "" if event.until_us is None else f" until {_at(event.until_us)}"
            yield f"waits{until}" if event.by == BACKING_OFF else f"held by {event.by}{until}"
        case facts.JobReleased():
            if event.by != BACKING_OFF:
                yield f"released by {event.by}"
        case facts.LaunchFailed():
            yield f"launch {event.attempt} fails"
        case facts.AttemptEnded():
            yield f"exits with {event.exit_code}"
        case facts.JobSuspended():
            yield "leaves"
        case facts.AttemptLost():
            yield "lost"
        case facts.GpusReleased() | facts.CheckpointSaved():
            pass  # with what is told before it
        case facts.JobRetried():
            yield "tried again"
        case facts.JobFailed():
            yield f"failed ({event.cause})"
        case facts.JobCancelled():
            yield f"cancelled ({event.cause})" if event.cause else "cancelled"
        case facts.JobCancelRequested():
            yield f"{event.by or 'somebody'} cancels"
        case facts.JobRejected():
            yield f"rejected ({event.reason})"
        case facts.TimeLimitReached():
            yield "over its limit"
        case facts.JobFinished():
            yield "finished"
        case facts.AllocationLearned():
            yield f"is on {gpus_of(event.allocation)}"
        case facts.GangProposed():
            yield f"proposed by {event.by}"
        case facts.GangApproved():
            yield f"approved ({event.choice})"
        case facts.GangRejected():
            why = {KEPT: ", kept", NOT_ADMITTED: ", not admitted"}.get(event.detail, "")
            times = f" {event.count} times" if event.count > 1 else ""
            yield f"rejected{times} ({event.reason}{why})"
        case facts.ReservationSet():
            kept = Allocation(event.shares) if event.start_us is not None else None
            yield "keeps nothing" if kept is None else f"keeps {gpus_of(kept) or 'a place'}"
        case facts.CheckpointDiscarded():
            yield f"gives {'+'.join(event.nodes)}/{event.attempt} up"
        case facts.JobResized():
            yield f"resized to {event.gpus}"
        case _:
            yield type(event).__name__


def gpus_of(where: Allocation) -> str:
    """Return GPUs as `n0[0,1]+n1[0]`."""
    return "+".join(
        f"{share.node}[{','.join(str(g) for g in range(64) if share.gpu_mask >> g & 1)}]"
        for share in where.shares
    )
