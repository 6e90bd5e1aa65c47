"""The notation of the tables on waits: a scene in clauses of text, and what is answered in it.

A scene is a text of clauses, parted by semicolons or line ends:

    under fifo_easy, default_limit=60   the policy (`fifo` if not said), with its parameters
    rounds of 10                        when it decides; if not said, at each event
    until 20                            the log ends there; if not said, with the last job
    servers 4 2, cpus_milli=4000        n0 of 4 GPUs and n1 of 2, with what they have besides
    server k 1, gpu_type=k80            one more, of this name
    quota q 2; guard min_runtime_us=60
    costs start_us=2, suspend_us=3
    j1: 2 GPUs for 5 at 1, queue=q      a job that is submitted at 1 and would run for 5
    ana holds j1 at 20                  an order; see `_ORDERS`
    n0 dies at 8; n0 returns at 12      a server of a simulation, with all that runs there
    live; j1 exits with 1 at 30         a live cluster, and what is seen; see `live_core.py`

Instants and durations are microseconds, or seconds where an `s` follows. A row asks for a job at
an instant and says what has to be answered, by the names in `NAMES`. `why`, `queue` and the
metrics must give the same reason.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from shunter.api import queue_document
from shunter.ask import state_document, told_apart, wait_of, wait_to_count
from shunter.ask.why import Explanation, details, document, needs, rank_lines, suffices
from shunter.backends.simulated import (
    Costs,
    Credit,
    EndSeen,
    NodeChange,
    Progress,
    RecordedFailures,
    RoundEnds,
)
from shunter.cli import clause
from shunter.core import (
    CancelJob,
    Command,
    DiscardCheckpoint,
    DrainNode,
    Guards,
    HoldJob,
    JobPhase,
    Policy,
    QuarantineGpu,
    ReleaseGpu,
    ReleaseJob,
    ResizeJob,
    RestoreNode,
    State,
    SuspendJob,
)
from shunter.core.fold import replay
from shunter.core.ranking import RankedPolicy
from shunter.core.speeds import SpeedModel
from shunter.events import (
    Allocation,
    AttemptLost,
    Dependency,
    DependsWhen,
    Event,
    JobId,
    Level,
    NodeName,
    SuspendMode,
)
from shunter.workloads import TraceJob
from tests.behaviour.live_core import LiveRecorded, LiveScript, Resumed, gpus_of, life_of, us
from tests.factories import Outcome, World, node_added, policy, quota, run, servers, trace_job
from tests.replay.proposing.proposed_run import gavel
from tests.replay.recording import Recorded, asked, record

REASONS_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "reasons.md"
Scene = str | Callable[[], Recorded]


@dataclass(frozen=True)
class Row:
    """One case: its words, the scene, which job is asked for and when, and what is answered."""

    words: str
    scene: Scene
    asks: str
    expects: Mapping[str, Any]

    def __str__(self) -> str:
        return self.words


def row(words: str, scene: Scene, asks: str, **expects: Any) -> Row:
    return Row(words, scene, asks, expects)


def blocks(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the cases of a table that is written as text: words, scene, and what is expected.

    the words of a case
        its scene; in as many lines as it takes
        => what is expected
    """
    words, scene, expected = "", "", list[str]()
    for line in text.splitlines():
        said = line.strip()
        if said and not line.startswith(" "):
            if expected:
                yield words, scene, expected
                words, scene, expected = "", "", []
            words = f"{words} {said}".strip()
        elif said.startswith("=>"):
            expected.append(said.removeprefix("=>").strip())
        elif expected:
            expected[-1] = f"{expected[-1]} {said}".strip()
        else:
            scene = f"{scene} {said}".strip()
    if expected:
        yield words, scene, expected


def rows(text: str) -> Iterator[Row]:
    """Yield the rows of a table as text, each with `=> j0 at 3, reason: held`, for one job."""
    for words, scene, expected in blocks(text):
        said = [each.split(": ", 1) for each in expected]
        named = [(about.rpartition(", "), value) for about, value in said]
        ((asks, _, _), _) = named[0]
        expects = {name: int(v) if v.isdigit() else v for (_, _, name), v in named}
        yield Row(words, scene, asks, expects)


@dataclass(frozen=True)
class Answer:
    """What is answered of a job."""

    found: Explanation
    said: dict[str, Any]
    state: State
    events: list[Event]
    resumed: Resumed

    @property
    def reason(self) -> str | None:
        """Return why it waits; None: it does not wait."""
        return None if self.found.waits_now is None else str(self.said["reason"]["name"])

    @property
    def row(self) -> Any:
        """Return the row of the job in the queue."""
        jobs = self.state.jobs.values()
        waiting = (job.job_id for job in jobs if job.is_eligible)
        ranks = {job_id: rank for rank, job_id in enumerate(waiting, 1)}
        rows = queue_document(self.state, jobs, str, now="", ranks=ranks)["jobs"]
        return next(row for row in rows if row["id"] == self.found.story.job_id)

    @property
    def blockers(self) -> Any:
        return self.said["evidence"]["blockers"]

    @property
    def decision(self) -> Any:
        return self.said["decision"]


def _starts(got: Answer) -> str:
    """Return the instant of the plan that starts it if nothing changes; empty: none does."""
    found = [re.search(r"plan at T\+\d\d:\d\d:(\d\S*),", each) for each in suffices(got.found)]
    return found[0][1] if found and found[0] else ""


def _became(got: Answer) -> dict[str, Any] | None:
    """Return what the log says of it next; None: nothing."""
    found: dict[str, Any] | None = got.said["became"]
    ended = [each["id"] for each in found["ended"]] if found else []
    return found and {"what": found["what"], "after_s": found["after_s"], "ended": ended}


def _counted(got: Answer) -> str | None:
    wait = wait_to_count(got.state.jobs[JobId(got.found.story.job_id)], got.state)
    return None if wait is None else wait.reason.value


def _is_older_than_job(got: Answer) -> bool:
    """Say whether its reason is older than the job; the sentence and the number must agree."""
    told = any("before it came" in line for line in details(got.found))
    assert told == got.decision["is_older_than_job"]
    return told


def _runs(got: Answer) -> str:
    """Return where it ran, from when until when, and what ended that."""
    runs = [part for part in got.said["timeline"] if part["what"] == "run"]
    told = "{where} {from_us}-{to_us} {ended_by}"
    return "; ".join(told.format_map({**run, "to_us": run["to_us"] or ""}).strip() for run in runs)


def _servers(got: Answer) -> str:
    """Return of each server whether it is there, and what is out of use."""
    return ", ".join(
        f"{server.name} {server.health}"
        + (" but drained" if server.drained else "")
        + (f" without {server.quarantined:#b}" if server.quarantined else "")
        for server in got.state.cluster.servers.values()
    )


NAMES: dict[str, Callable[[Answer], Any]] = {
    "phase": lambda got: str(got.found.phase),
    "headline": lambda got: got.said["headline"],
    "reason": lambda got: got.reason,
    "reasons": lambda got: [str(part.wait.reason) for part in got.found.reasons],
    "needed": lambda got: (got.said["evidence"]["needed"], got.said["evidence"]["free"]),
    "blockers": lambda got: [each["id"] for each in got.blockers],
    "served_gpu_s": lambda got: {each["id"]: each["attained_gpu_s"] for each in got.blockers},
    "holders": lambda got: [(each["id"], each["phase"], each["where"]) for each in got.blockers],
    "needs": lambda got: needs(got.found),
    "starts": _starts,
    "became": _became,
    "says": lambda got: details(got.found),
    "says_first": lambda got: details(got.found)[0],
    "says_last": lambda got: details(got.found)[-1],
    "promises": lambda got: any("promise" in line for line in details(got.found)),
    "queue": lambda got: clause(got.row["reason"]),
    "state": lambda got: got.row["state"],
    "queue_blockers": lambda got: got.row["reason"]["blockers"],
    "held": lambda got: (got.row["cpus_held"], got.row["memory_mb_held"]),
    "counted": _counted,  # the reason that metrics count of it
    "ahead": lambda got: rank_lines(got.found),
    "to_do": lambda got: got.said["short"]["to_do"],
    "place": lambda got: got.said["rank"],
    "rounds": lambda got: len(got.found.story.rounds),  # that looked at it
    "of_class": lambda got: got.decision["of"] == "class",  # found for those that ask for the same
    "is_older_than_job": _is_older_than_job,
    "as_of": lambda got: tuple(got.said[part]["as_of"]["us"] for part in ("reason", "evidence")),
    "numbers_are_dated": lambda got: any("the numbers are of" in x for x in details(got.found)),
    "is_stale": lambda got: not got.found.agreement.agrees,
    "checked": lambda got: got.found.agreement.checked,  # the plan was made once more
    "rule": lambda got: got.decision["rule"],
    "decision": lambda got: got.decision["words"],
    "decided_at": lambda got: got.decision["at_us"],
    "decided_in_round": lambda got: got.decision.get("round"),  # None: by a person
    "where": lambda got: got.decision["where"],
    "scores": lambda got: got.decision["scores"],
    "gains": lambda got: got.decision["beneficiaries"],  # for whom it had to leave
    "made_room": lambda got: got.decision["made_room"],  # who had to leave for it
    "preemptions": lambda got: got.said["totals"]["preemptions"],
    "totals": lambda got: got.said["totals"],
    "log": lambda got: life_of(got.events, JobId(got.found.story.job_id), got.resumed),
    "then": lambda got: NAMES["log"](got).partition("; ")[2],  # after its first instant
    "admitted": lambda got: list(got.state.proposals.admitted),
    "kept": lambda got: {
        name: gpus_of(Allocation(shares)) for name, shares in got.state.proposals.reserved.items()
    },
    "gpus_held": lambda got: got.found.runs[-1].allocation.gpus,
    "timeline": lambda got: [(x["what"], x["from_us"], x["to_us"]) for x in got.said["timeline"]],
    "runs": _runs,
    "lost": lambda got: ", ".join(
        f"{lost.lost_us} of {lost.job_id}" for lost in got.events if isinstance(lost, AttemptLost)
    ),  # how much work, in microseconds
    "servers": _servers,
}
"""What a row may say, by its name."""


def run_of(scene: str, by: Policy[Any], **world: Any) -> Outcome:
    """Return what comes of a scene under a policy that no name builds."""
    reading = _Reading()
    for part in re.split(r"[;\n]", scene):
        reading.take(part.strip())
    return run(World(**reading.world() | world), by)


@cache
def played(scene: Scene) -> Recorded:
    """Return the log of a scene: read from its text and run, or as its function makes it."""
    if not isinstance(scene, str):
        return scene()
    reading = _Reading()
    for part in re.split(r"[;\n]", scene):
        if part.strip():
            reading.take(part.strip())
    if reading.live is not None:
        made = reading.world()
        return reading.live.played(made.pop("jobs"), reading.orders, reading.under, **made)
    return record(World(**reading.world()), reading.under, *reading.orders)


def answer(scene: Scene, job: JobId, at_us: int | None) -> Answer:
    """Return what is answered of a job at an instant; None: at the end of the log."""
    recorded = played(scene)
    found = asyncio.run(asked(recorded, job, at_us))
    upto = [event for event in recorded.events if at_us is None or event.at_us <= at_us]
    resumed = recorded.resumed if isinstance(recorded, LiveRecorded) else {}
    return Answer(found, document(found), replay(upto), upto, resumed)


def check(case: Row) -> None:
    """Hold a row against what is answered, and the answers of `why`, queue and metrics together."""
    job, _, instants = case.asks.partition(" at ")
    for instant in instants.split(", "):
        got = answer(case.scene, JobId(job), us(instant) if instant else None)
        _check_expected(got, case.expects)
        _check_agreement(got, is_stale=case.expects.get("is_stale", False))


def _check_expected(got: Answer, expects: Mapping[str, Any]) -> None:
    """Compare what a row says; names that end in `_part` are looked for in the whole."""
    for name, expected in expects.items():
        said = NAMES[name.removesuffix("_part")](got)
        if name == "says":
            assert expected in said
        elif name == "headline":
            assert said.startswith(expected)
        elif name.endswith("_part"):
            assert expected in "\n".join([said] if isinstance(said, str) else said)
        else:
            assert said == expected, name


def _check_agreement(got: Answer, *, is_stale: bool) -> None:
    """Hold together what is answered in several places.

    A stale reason is one that a plan made now, which the core has yet to make, would not find.
    """
    assert sum(spent for _, spent in got.found.shares()) == got.found.waited_us
    if got.found.job is not None:
        assert got.said["totals"]["preemptions"] == got.found.job.preemptions
    if got.reason is None:
        return
    assert f"## `{got.said['reason']['manual'].partition('#')[2]}`\n" in REASONS_PAGE.read_text()
    agreement = got.found.agreement
    assert not agreement.checked or agreement.agrees is not is_stale, "planned once more"
    job = got.state.jobs[JobId(got.found.story.job_id)]
    wait = wait_of(job, got.state)
    assert wait is not None
    assert told_apart(wait, job.demand.gpu_types, got.state.cluster) == got.reason, "wait_of"
    if job.phase is JobPhase.waiting:
        assert state_document(got.state)["queue"]["reasons"][got.reason], "metrics"
    assert got.row["reason"]["name"] == got.reason, "queue"


_ORDERS: dict[str, Callable[[int, str, str, str], Command]] = {
    "holds": lambda at, what, by, _: HoldJob(at, JobId(what), by),
    "suspends": lambda at, what, by, _: SuspendJob(at, JobId(what), by),
    "releases": lambda at, what, by, _: ReleaseJob(at, JobId(what), by),
    "cancels": lambda at, what, by, _: CancelJob(at, JobId(what), by),
    "resizes": lambda at, what, by, to: ResizeJob(at, JobId(what), int(to), by),
    "gives up": lambda at, what, by, _: DiscardCheckpoint(at, JobId(what), by),
    "drains": lambda at, what, by, _: DrainNode(at, NodeName(what), by),
    "restores": lambda at, what, by, _: RestoreNode(at, NodeName(what), by),
    "sets aside GPU": lambda at, what, by, to: QuarantineGpu(at, NodeName(to), int(what), by),
    "takes back GPU": lambda at, what, by, to: ReleaseGpu(at, NodeName(to), int(what), by),
}
_ORDER = re.compile(rf"(\S+) ({'|'.join(_ORDERS)}) (\S+)(?: (?:to|of) (\S+))? at (\d+s?)")
_CHANGE = re.compile(r"(\w+) (dies|returns) at (\d+s?)")
_JOB = re.compile(r"(\w+): (\d+) GPUs?(?: for (\d+[sm]?))?(?: at (\d+[sm]?))?(?:, (.+))?")


class _Reading:
    """The clauses of a scene as what a run begins with."""

    def __init__(self) -> None:
        self.under: str | RankedPolicy = "fifo"
        self.orders: list[Command] = []
        self.live: LiveScript | None = None
        self._made: dict[str, Any] = {"jobs": (), "queues": ()}

    def take(self, clause: str) -> None:
        """Read one clause."""
        kind, _, rest = clause.partition(" ")
        if order := _ORDER.fullmatch(clause):
            by, what_to_do, what, to, at = order.groups()
            self.orders.append(_ORDERS[what_to_do](us(at), what, by, to or ""))
        elif change := _CHANGE.fullmatch(clause):
            self._change(NodeName(change[1]), us(change[3]), is_loss=change[2] == "dies")
        elif job := job_in(clause):
            self._made["jobs"] += (job,)
        elif self.live is not None and self.live.takes(clause):
            pass
        elif kind.rstrip(",") == "live":
            self.live = LiveScript(fields_of(rest))
        elif kind == "under":
            name, _, params = rest.partition(", ")
            named: Any = gavel() if name == "gavel" else name
            self.under = policy(name, **fields_of(params)) if params else named
        elif kind == "until":
            self._made["until_us"] = us(rest)
        elif kind == "rounds":
            self._made["round_us"] = us(rest.removeprefix("of "))
        elif kind == "servers":
            counts, _, more = rest.partition(", ")
            self._made["servers"] = servers(*map(int, counts.split()), **fields_of(more))
        elif kind == "server":
            described, _, more = rest.partition(", ")
            name, gpus = described.split()
            added = node_added(name, int(gpus), **fields_of(more))
            self._made["servers"] = (*self._made.get("servers", ()), added)
        elif kind == "quota":
            queue, gpus = rest.split()
            self._made["queues"] += (quota(queue, int(gpus)),)
        elif kind in ("guard", "costs"):
            made: Any = Guards if kind == "guard" else Costs
            self._made["guards" if kind == "guard" else kind] = made(**fields_of(rest))
        else:
            raise ValueError(f"no clause of a scene: {clause!r}")

    def _change(self, node: NodeName, at_us: int, *, is_loss: bool) -> None:
        """Note that a server dies or comes back."""
        known = self._made.get("failures", RecordedFailures()).known
        changes = (*known, NodeChange(at_us, node, is_loss, "server"))
        self._made["failures"] = RecordedFailures(
            tuple(sorted(changes, key=lambda each: each.at_us))
        )

    def world(self) -> dict[str, Any]:
        """Return the fields of a `World`; with the speeds that jobs of several sizes need."""
        if any(job.spec.gpus_max for job in self._made["jobs"]):
            there = {each.node: each.configuration for each in self._made["servers"]}
            return {**self._made, "speeds": SpeedModel(there)}
        return self._made


_VALUES: dict[str, Callable[[str], Any]] = {
    "weight": float,
    "max_level": Level,
    "suspend_mode": SuspendMode,
    "gpu_types": lambda text: tuple(text.split("+")),
    "shapes": lambda text: (tuple(map(int, text.split("+"))),),
    "depends_on": lambda text: (Dependency(JobId(text)),),
    "depends_on_any_end_of": lambda text: (Dependency(JobId(text), DependsWhen.any),),
    **dict.fromkeys(
        (
            *("only_lower", "launches_first", "keeps_homes", "at_boundary", "checkpoints_stay"),
            *("launches_wait", "bounds_departures", "retries_elsewhere", "split_may_change"),
            "decentralised",
        ),
        "yes".__eq__,
    ),
    "progress": Progress,
    "credit": Credit,
    "end_seen": EndSeen,
    "round_ends": RoundEnds,
    "by_model": lambda text: tuple(
        (model, int(us)) for model, _, us in (one.partition(":") for one in text.split("+"))
    ),
    "tolerance": lambda text: tuple(
        (Level(level), float(speed))
        for level, _, speed in (x.partition(":") for x in text.split("+"))
    ),
    "moving": lambda text: frozenset({JobId(text)}),
}
_LONG = {"depends_on_any_end_of": "depends_on"}


def fields_of(text: str) -> dict[str, Any]:
    """Return `name=value, …` as what the names mean; digits are numbers."""
    pairs = [each.split("=") for each in text.split(", ") if each]
    return {_LONG.get(name, name): _VALUES.get(name, _plain)(value) for name, value in pairs}


def _plain(text: str) -> int | str:
    return us(text) if re.fullmatch(r"\d+[sm]?", text) else text


def job_in(clause: str) -> TraceJob | None:
    """Return the job that a clause such as `j1: 2 GPUs for 5 at 1` describes; None: it does not."""
    if not (found := _JOB.fullmatch(clause)):
        return None
    name, gpus, lasts, at, more = found.groups()
    lasts_us, at_us = us(lasts or "10"), us(at or "0")
    return trace_job(name, int(gpus), lasts=lasts_us, at=at_us, **fields_of(more or ""))
