"""The simulated backend under a hand that gives orders at chosen instants.

The tables here play the scheduler: they say what to launch, suspend or end and when, and compare
what is observed with instants worked out by hand. The text of a case is a scene in clauses, in the
notation of `tests/behaviour/waits_scenes.py`, with what the scheduler orders:

    j0: 1 GPU for 10 at 7, ends=failed      a job that comes at 7
    costs start_us=3; lease round_us=10     `slicing` and `samples` alike
    n0 dies at 8; n0 returns at 11          `n0 dies with its rack at 8`
    0: launch j0, launch j1 on n0[1]+n1[0]  GPU 0 of n0 if no place is said
    4: suspend j0, resume j0 on n1          of its attempt at that time, or of another: `j0 #1`
    until 20                                if not said, until nothing happens by itself any more

What is observed is told alike: `7: j0 leaves losing 2; 9: j0 is gone, j1 ends #2`. What comes at
0, before all orders, is not told.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from shunter.backends.simulated import (
    Costs,
    Failures,
    Lease,
    NodeChange,
    Samples,
    SimulatedBackend,
    Slicing,
)
from shunter.core import (
    AttemptExited,
    Backend,
    CancelJob,
    Continue,
    Effect,
    Input,
    Launch,
    Migrate,
    NothingComes,
    ReshapeAttempt,
    Resume,
    RoundEnded,
    Stop,
    SubmitJob,
    SuspendAttempt,
    Terminate,
    Weigh,
    WorldEnded,
)
from shunter.core.speeds import SpeedModel
from shunter.events import Allocation, JobId, JobSpec, NodeName, Share, Sharing, facts
from shunter.workloads import TraceJob
from tests.behaviour.waits_scenes import blocks, fields_of, job_in
from tests.factories import allocation, drive, job_id, job_spec, node_name

ON_N0 = allocation(n0=1)
ON_N1 = allocation(n1=1)
ON_BOTH = allocation(n0=1, n1=1)


class Hand:
    """Drives a backend, and stands at the instant that it has been driven to."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.now_us = 0

    def orders(self, *effects: Effect) -> None:
        """Give orders at this instant."""
        drive(self.backend.perform(effects, self.now_us))

    def until(self, at_us: int) -> list[Input]:
        """Return all that happens up to an instant and at it; go there."""
        seen: list[Input] = []
        while inputs := self._observed(at_us):
            if isinstance(inputs[-1], NothingComes):
                assert len(inputs) == 1, "what comes may be followed by more"
                break
            seen += inputs
        assert self.now_us == at_us, "an observation in which nothing happened ends too early"
        return seen

    def goes_on(self) -> list[Input]:
        """Return all that happens until nothing will happen by itself any more."""
        seen: list[Input] = []
        while not isinstance((inputs := self._observed(None))[-1], WorldEnded):
            seen += inputs
        return seen

    def _observed(self, until_us: int | None) -> Sequence[Input]:
        self.now_us, inputs = drive(self.backend.observe(until_us))
        return inputs


def ends(seen: Sequence[Input]) -> dict[str, int]:
    """Return when which jobs ended."""
    return {str(one.job_id): one.at_us for one in seen if isinstance(one, AttemptExited)}


@dataclass(frozen=True)
class Mishaps(Failures):
    """Failures at instants that a test chooses."""

    chosen: tuple[NodeChange, ...] = ()

    def changes(self) -> Iterator[NodeChange]:
        return iter(self.chosen)


def mishaps(*chosen: NodeChange) -> Mishaps:
    return Mishaps(chosen=chosen)


def dies(node: int, at: int, cause: str = "server") -> NodeChange:
    return NodeChange(at, node_name(node), is_loss=True, cause=cause)


def returns(node: int, at: int) -> NodeChange:
    return NodeChange(at, node_name(node), is_loss=False, cause="server")


def launch(job: int = 0, where: Allocation = ON_N0) -> Launch:
    return Launch(job_id(job), 1, where, job_spec())


def resume(job: int = 0, attempt: int = 2, where: Allocation = ON_N0) -> Resume:
    return Resume(job_id(job), attempt, where, job_spec())


def suspend(job: int = 0, attempt: int = 1) -> SuspendAttempt:
    return SuspendAttempt(job_id(job), attempt)


def migrate(job: int = 0, attempt: int = 1, where: Allocation = ON_N1) -> Migrate:
    return Migrate(job_id(job), attempt, where)


def terminate(job: int = 0, attempt: int = 1) -> Terminate:
    return Terminate(job_id(job), attempt)


@dataclass(frozen=True)
class Case:
    """One case: its words, the scene, and what is observed in it."""

    words: str
    scene: str
    sees: str
    speeds: SpeedModel | None = None
    sharing: Sharing = Sharing.exclusive

    def __str__(self) -> str:
        return self.words

    def seen(self) -> str:
        """Return what is observed after the orders of the scene, those of 0 included."""
        reading = _Reading(self.sharing)
        for clause in self.scene.split(";"):
            if clause.strip():
                reading.take(clause.strip())
        return told(reading.played(self.speeds))


def cases(text: str, *more: Any, make: Callable[..., Case] = Case) -> Iterator[Case]:
    """Yield the cases of a table that is written as text, as `blocks` says."""
    for words, scene, expected in blocks(text):
        yield make(words, scene, *expected, *more)


_ORDER = re.compile(r"(\w+) (\w+)(?: #(\d+))?(?: on (\S+))?(?: to (\S+))?")
_CHANGE = re.compile(r"(\w+) (dies|returns)( with its rack)? at (\d+)")
_OPTIONS: dict[str, Any] = {"costs": Costs, "lease": Lease, "slicing": Slicing, "samples": Samples}


class _Reading:
    """The clauses of a scene, as a world and the orders of a scheduler."""

    def __init__(self, sharing: Sharing) -> None:
        self.sharing = sharing
        self.jobs: list[TraceJob] = []
        self.changes: list[NodeChange] = []
        self.orders: list[tuple[int, str]] = []
        self.options: dict[str, Any] = {}
        self.until_us: int | None = None
        self.attempts: dict[JobId, int] = {}

    def take(self, clause: str) -> None:
        """Read one clause."""
        kind, _, rest = clause.partition(" ")
        if kind in _OPTIONS:
            self.options[kind] = _OPTIONS[kind](**fields_of(rest))
        elif kind == "until":
            self.until_us = int(rest)
        elif kind.rstrip(":").isdigit():
            self.orders.append((int(kind.rstrip(":")), rest))
        elif change := _CHANGE.fullmatch(clause):
            node, what, with_rack, at = change.groups()
            cause = "rack" if with_rack else "server"
            self.changes.append(NodeChange(int(at), NodeName(node), what == "dies", cause))
        elif job := job_in(clause):
            self.jobs.append(job)
        else:
            raise ValueError(f"no clause of a scene: {clause!r}")

    def played(self, speeds: SpeedModel | None) -> list[Input]:
        """Give the orders at their instants; return what is observed."""
        failures = mishaps(*self.changes)
        backend = SimulatedBackend(self.jobs, failures=failures, speeds=speeds, **self.options)
        hand, seen = Hand(backend), list[Input]()
        hand.until(0)
        for at_us, orders in self.orders:
            if at_us:
                seen += hand.until(at_us)
            hand.orders(*map(self._order, orders.split(", ")))
        return seen + (hand.goes_on() if self.until_us is None else hand.until(self.until_us))

    def _order(self, text: str) -> Effect:
        found = _ORDER.fullmatch(text)
        assert found, text
        what, name, attempt, where, value = found.groups()
        job, before = JobId(name), self.attempts.get(JobId(name), 0)
        number = int(attempt or (before + 1 if what in ("launch", "resume") else before))
        if what in ("launch", "resume"):
            self.attempts[job] = number
        place = self._place(where or "n0")
        made: dict[str, Callable[[], Effect]] = {
            "launch": lambda: Launch(job, number, place, self._spec(job, place)),
            "resume": lambda: Resume(job, number, place, self._spec(job, place)),
            "migrate": lambda: Migrate(job, number, place),
            "reshape": lambda: ReshapeAttempt(job, number, place),
            "suspend": lambda: SuspendAttempt(job, number),
            "terminate": lambda: Terminate(job, number),
            "stop": lambda: Stop(job, number),
            "continue": lambda: Continue(job, number),
            "weigh": lambda: Weigh(job, number, float(value)),
        }
        return made[what]()

    def _spec(self, name: JobId, place: Allocation) -> JobSpec:
        """Return what a job asks for, of the size that it is given if it is elastic."""
        specs = [job.spec for job in self.jobs if job.job_id == name and job.spec.gpus_max]
        return specs[0].resized(place.gpus) if specs else job_spec()

    def _place(self, text: str) -> Allocation:
        shares = []
        for part in text.split("+"):
            node, _, gpus = part.rstrip("]").partition("[")
            first, _, last = (gpus or "0").partition("-")
            chosen = range(int(first), int(last or first) + 1) if first != "none" else ()
            shares.append(Share(NodeName(node), sum(1 << gpu for gpu in chosen)))
        return Allocation(tuple(shares), self.sharing)


def told(seen: Sequence[Input]) -> str:
    """Return what was observed as text, an instant after the other."""
    moments = groupby(seen, lambda one: one.at_us)
    return "; ".join(f"{at_us}: {', '.join(map(_words, ones))}" for at_us, ones in moments)


def _words(seen: Input) -> str:
    """Return one observation in words."""
    by: Any = seen
    attempt = f" #{by.attempt}" if getattr(by, "attempt", 1) > 1 else ""
    match seen:
        case SubmitJob():
            return f"{by.job_id} comes"
        case RoundEnded():
            return "the round is over"
        case CancelJob():
            return f"{by.job_id} is cancelled" + (f" by {by.by}" if by.by else "")
        case AttemptExited():
            assert by.released
            how = f"exits with {by.exit_code}" if by.exit_code else "ends"
            unseen = "" if by.ended_us is None else f" as it did at {by.ended_us}"
            return f"{by.job_id} {how}{unseen}{attempt}"
        case facts.AttemptStarted():
            speed = "" if by.speed == 1 else f" at {by.speed:g}"
            came = "".join(f" from {node}" for node in by.migrated_from)
            return f"{by.job_id} starts{speed}{came}{attempt}"
        case facts.JobSuspended():
            return f"{by.job_id} leaves" + (f" losing {by.lost_us}" * bool(by.lost_us)) + attempt
        case facts.GpusReleased():
            return f"{by.job_id} is gone{attempt}"
        case facts.AttemptLost():
            assert by.cause == "node lost"
            return f"{by.job_id} is lost with {by.lost_us}{attempt}"
        case facts.NodeLost():
            return f"{by.node} dies" + (" with its rack" if by.cause == "rack" else "")
        case facts.NodeReachable():
            return f"{by.node} returns"
        case facts.SpeedChanged():
            return f"{by.job_id} goes at {by.speed:g}{attempt}"
        case facts.JobStopped():
            return f"{by.job_id} stops{attempt}"
        case facts.JobContinued():
            return f"{by.job_id} goes on{attempt}"
        case facts.TurnStarted():
            speed = "" if by.speed == 1 else f" at {by.speed:g}"
            moving = " can move" * bool(by.can_move)
            return f"{by.job_id} has {_gpus(by.shares)}{speed}{moving}{attempt}"
        case facts.TurnEnded():
            return f"{by.job_id} waits{attempt}"
        case facts.ProfileSampled():
            step = "" if by.step is None else f" step {by.step} with"
            return f"{by.job_id} tells{step} {by.batch_s:g} s a step{attempt}"
    raise ValueError(f"no words for {seen}")


def _gpus(shares: Sequence[Share]) -> str:
    """Return GPUs as `n0[0]+n1[0,2]`."""
    return "+".join(
        f"{share.node}[{','.join(str(g) for g in range(64) if share.gpu_mask >> g & 1)}]"
        for share in shares
    )
