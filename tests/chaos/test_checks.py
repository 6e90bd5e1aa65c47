"""The checker of histories finds what is planted, and nothing in a good one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.checks import CHECKS, violations
from tests.chaos.history import Event, Freeze, History, Process, Sign
from tests.chaos.scenario import JobPlan

SECOND_NS = 1_000_000_000
PLAIN = JobPlan("c0", "plain", 3, 20, 0.1, 5, 0.0, "cooperative")
SDK = JobPlan("c1", "sdk", 2, 10, 0.1, 5, 0.0, "cooperative")
Planted = Callable[[History], History]


def event(seq: int, kind: str, job: str = "", **fields: Any) -> Event:
    named = {"job_id": job} if job else {}
    return {"seq": seq, "kind": kind, "at_us": seq * 1000, **named, **fields}


def granted(seq: int, job: str, **masks: int) -> Event:
    shares = [{"node": node, "gpu_mask": mask} for node, mask in masks.items()]
    return event(seq, "AllocationChanged", job, allocation={"shares": shares})


def ran(
    name: str,
    at_s: float,
    steps: range,
    *,
    gpus: tuple[str, ...] = ("0",),
    world: int = 1,
    saved: tuple[int, ...] = (),
    is_done: bool = False,
) -> Process:
    """Return a process, named by job, attempt, rank and host, that does ten steps a second."""
    job, attempt, rank, node = name.split(".")
    begin_ns = int(at_s * SECOND_NS)
    begun = {"step": steps.start, "gpus": list(gpus), "world": world}
    signs = [Sign(begin_ns, "begun", begun)]
    for count, step in enumerate(range(steps.start + 1, steps.stop + 1), 1):
        ns = begin_ns + count * SECOND_NS // 10
        signs.append(Sign(ns, "step", {"step": step}))
        if step in saved:
            signs.append(Sign(ns, "saved", {"step": step}))
    if is_done:
        signs.append(Sign(signs[-1].ns, "done", {"step": steps.stop}))
    return Process(job, int(attempt), int(rank), node, tuple(signs))


def good() -> History:
    """Return the history of a gang that is suspended and moves, and of a job that is lost once."""
    events = [
        event(1, "SchedulerStarted", term=1),
        event(2, "NodeAdded", node="n0"),
        event(3, "JobSubmitted", "j1", dedupe_key="c0"),
        granted(4, "j1", n3=1, n1=3),
        event(5, "AttemptStarted", "j1", attempt=1),
        event(6, "JobSubmitted", "j2", dedupe_key="c1"),
        event(7, "JobSuspended", "j1", attempt=1),
        event(8, "GpusReleased", "j1", attempt=1),
        granted(9, "j2", n0=3),
        event(10, "AttemptStarted", "j2", attempt=1),
        event(11, "NodeLost", node="n0"),
        event(12, "AttemptLost", "j2", attempt=1, cause="host n0 lost"),
        granted(13, "j2", n3=3),
        event(14, "CheckpointDiscarded", "j2", attempt=1, nodes=["n0"], cause="lost"),
        event(15, "AttemptStarted", "j2", attempt=2),
        event(16, "AttemptEnded", "j2", attempt=2, exit_code=0),
        event(17, "GpusReleased", "j2", attempt=2),
        event(18, "JobFinished", "j2"),
        granted(19, "j1", n1=3, n2=1),
        event(20, "AttemptStarted", "j1", attempt=2),
        event(21, "AttemptEnded", "j1", attempt=2, exit_code=0),
        event(22, "GpusReleased", "j1", attempt=2),
        event(23, "JobFinished", "j1"),
    ]
    two = ("0", "1")
    processes = (
        ran("j1.1.0.n3", 0.0, range(7), world=2, saved=(5, 7)),
        ran("j1.1.1.n1", 0.0, range(6), world=2, saved=(5, 6), gpus=two),
        ran("j2.1.0.n0", 2.0, range(7), saved=(5,), gpus=two),
        ran("j2.2.0.n3", 9.0, range(10), saved=(5, 10), gpus=two, is_done=True),
        ran("j1.2.0.n1", 12.0, range(7, 20), world=2, gpus=two, is_done=True),
        ran("j1.2.1.n2", 12.0, range(6, 20), world=2, is_done=True),
    )
    return History(
        plans={"c0": PLAIN, "c1": SDK},
        ids={"c0": "j1", "c1": "j2"},
        events=tuple(events),
        processes=processes,
        freezes=(Freeze("n1", 20 * SECOND_NS, 21 * SECOND_NS),),
        rows=23,
    )


def without(seq: int) -> Planted:
    """Return what takes an event away, and numbers the others anew."""

    def plant(history: History) -> History:
        left = [dict(each) for each in history.events if each["seq"] != seq]
        numbered = tuple({**each, "seq": number} for number, each in enumerate(left, 1))
        return replace(history, events=numbered, rows=len(numbered))

    return plant


def put(seq: int, kind: str, job: str, **fields: Any) -> Planted:
    """Return what puts an event before another one, and numbers all anew."""

    def plant(history: History) -> History:
        events = list(history.events)
        events.insert(seq - 1, event(seq, kind, job, **fields))
        numbered = tuple({**each, "seq": number} for number, each in enumerate(events, 1))
        return replace(history, events=numbered, rows=len(numbered))

    return plant


def instead(number: int, process: Process) -> Planted:
    """Return what puts one process in another's place."""

    def plant(history: History) -> History:
        processes = list(history.processes)
        processes[number] = process
        return replace(history, processes=tuple(processes))

    return plant


def beside(process: Process) -> Planted:
    """Return what adds a process."""
    return lambda history: replace(history, processes=(*history.processes, process))


def exited(code: int) -> Planted:
    """Return what lets the first job fail with a code."""
    end = event(23, "JobFailed", "j1", cause="exit code", exit_code=code)
    return lambda history: replace(history, events=(*history.events[:-1], end))


def taken(by: str) -> Process:
    """Return a process that finds its GPU in another's hands."""
    sign = Sign(20 * SECOND_NS, "taken", {"name": "gpu.n0.0", "by": by})
    whole = ran("j1.2.0.n1", 12.0, range(7, 20), world=2, is_done=True)
    return replace(whole, signs=(*whole.signs, sign))


def stale(*, is_done: bool = False) -> Process:
    return ran("j1.2.1.n2", 12.0, range(5, 20), world=2, is_done=is_done)


def raised() -> Process:
    sign = Sign(13 * SECOND_NS, "raised", {"error": "OSError()"})
    whole = ran("j1.2.0.n1", 12.0, range(7, 20), world=2, is_done=True)
    return replace(whole, signs=(*whole.signs, sign))


PLANTED: dict[str, tuple[str, Planted]] = {
    "a job that is not in the log": ("submissions", lambda h: replace(h, ids={"c9": "j9"})),
    "a key that made two jobs": ("submissions", put(4, "JobSubmitted", "j3", dedupe_key="c0")),
    "a job that never ended": ("ends", without(23)),
    "a job that ended twice": ("ends", put(24, "JobFinished", "j1")),
    "a job that ended in two ways": ("ends", put(24, "JobCancelled", "j1")),
    "an end that nobody asked for": (
        "ends",
        lambda h: replace(h, events=(*h.events[:-1], event(23, "JobCancelled", "j1"))),
    ),
    "a failure of a job that does not fail": ("ends", exited(1)),
    "something after the end": ("ends", put(24, "AttemptStarted", "j1", attempt=2)),
    "an attempt that started twice": ("attempts", put(21, "AttemptStarted", "j1", attempt=2)),
    "an attempt that ended twice": (
        "attempts",
        put(22, "AttemptEnded", "j1", attempt=2, exit_code=0),
    ),
    "an attempt that goes back": ("attempts", put(22, "AttemptLost", "j1", attempt=1)),
    "a start that failed and did not": (
        "attempts",
        put(22, "LaunchFailed", "j1", attempt=2, cause=""),
    ),
    "an end without the work": ("work done", instead(5, stale())),
    "two attempts at once": (
        "runs",
        beside(ran("j1.1.2.n9", 0.0, range(130), world=2)),
    ),
    "a rank that began twice": (
        "runs",
        beside(ran("j2.2.0.n1", 9.0, range(3))),
    ),
    "a helper that outlives its attempt": (
        "runs",
        beside(Process("j1", 1, 0, "n3", (Sign(1, "alive"), Sign(13 * SECOND_NS, "alive")))),
    ),
    "a GPU for two": (
        "gpus",
        instead(2, ran("j2.1.0.n3", 0.5, range(7), saved=(5,))),
    ),
    "a lock in another's hands": ("locks", instead(4, taken("j2.1.0.n0"))),
    "a GPU that two hold by the log": ("holds", without(8)),
    "a GPU that is never released": (
        "holds",
        lambda h: put(25, "AttemptStarted", "j1", attempt=3)(
            put(24, "AllocationChanged", "j1", allocation=granted(24, "j1", n1=1)["allocation"])(h)
        ),
    ),
    "a process on a server it was not given": (
        "given",
        instead(3, ran("j2.2.0.n4", 9.0, range(10), gpus=("0", "1"), is_done=True)),
    ),
    "a process with fewer GPUs than it was given": (
        "given",
        instead(3, ran("j2.2.0.n3", 9.0, range(10), gpus=("0",), is_done=True)),
    ),
    "a checkpoint of one rank that is stale": ("work", instead(5, stale(is_done=True))),
    "a checkpoint that was lost with no server": ("work", without(11)),
    "a checkpoint that was lost without a word": ("work", without(14)),
    "a step that a later attempt had begun with": (
        "work",
        beside(ran("j1.3.1.n4", 20.0, range(5, 8), world=2)),
    ),
    "an event that is missing": (
        "log",
        lambda h: replace(h, events=h.events[:5] + h.events[6:], rows=22),
    ),
    "an event that was not exported": ("log", lambda h: replace(h, rows=24)),
    "a command that complains": (
        "complaints",
        lambda h: replace(h, complaints=(("log verify", "exit 3"),)),
    ),
    "a job that raised": ("complaints", instead(4, raised())),
}


def test_good_history_has_nothing_wrong() -> None:
    assert violations(good()) == []


@pytest.mark.parametrize("what", PLANTED)
def test_planted_violation_is_found_by_its_check(what: str) -> None:
    check, plant = PLANTED[what]
    found = violations(plant(good()))
    assert check in {line.partition(":")[0] for line in found}, found


def test_each_check_has_something_planted() -> None:
    assert {check for check, _ in PLANTED.values()} == set(CHECKS)


def test_sdk_checkpoint_counts_once_all_ranks_have_it() -> None:
    """Of a gang of two, one had saved step 10 and both step 5 when they were killed."""
    wide = replace(SDK, gpus=3)
    both = [
        ran("j2.1.0.n1", 2.0, range(10), world=2, saved=(5, 10)),
        ran("j2.1.1.n2", 2.0, range(8), world=2, saved=(5,)),
    ]
    history = replace(good(), plans={"c0": PLAIN, "c1": wide}, freezes=())
    for begins, expected in ((5, []), (4, ["work"]), (0, ["work"])):
        again = ran("j2.2.0.n1", 9.0, range(begins, 10), is_done=True)
        told = replace(history, processes=(*history.processes[:2], *both, again))
        found = [line.partition(":")[0] for line in CHECKS["work"](told)]
        assert [name and "work" for name in found] == expected


def test_host_that_slept_past_its_loss_may_wake_for_a_moment() -> None:
    late = ran("j2.1.0.n0", 2.0, range(7), saved=(5,), gpus=("0", "1"))
    woken = [Sign(int(at_s * SECOND_NS), "step", {"step": 8}) for at_s in (9.5, 10.0)]
    awake = instead(2, replace(late, signs=(*late.signs, *woken)))
    assert violations(awake(good()))
    slept = replace(awake(good()), freezes=(Freeze("n0", 3 * SECOND_NS, 9 * SECOND_NS),))
    assert violations(slept) == []
    longer = replace(slept, freezes=(Freeze("n0", 3 * SECOND_NS, 5 * SECOND_NS),))
    assert {line.partition(":")[0] for line in violations(longer)} == {"runs"}


def test_attempt_of_which_nobody_heard_before_its_server_was_lost_is_excused() -> None:
    """The log cannot discard a checkpoint of what has never started, as far as it knows."""
    unheard = without(10)(without(14)(good()))  # neither the start of j2 nor what was discarded
    assert list(CHECKS["work"](unheard)) == []
    assert list(CHECKS["work"](without(10)(unheard)))  # nor the loss of its server


def test_rank_begins_once_whatever_became_of_its_folder() -> None:
    for begins_s in (7.0, 8.9):
        earlier = ran("j2.2.0.n3", begins_s, range(5), saved=(5,), gpus=("0", "1"))
        assert any("began 2 times" in line for line in CHECKS["runs"](beside(earlier)(good())))


def test_five_failed_launches_in_a_row_are_an_end() -> None:
    failed = [event(4 + n, "LaunchFailed", "j1", attempt=n, cause="full") for n in range(1, 6)]
    end = event(10, "JobFailed", "j1", cause="full")
    for count, is_wrong in ((5, False), (4, True)):
        told = [*good().events[:3], *failed[5 - count :], end]
        history = replace(good(), events=tuple(told), processes=())
        assert any(line.startswith("ends: j1") for line in violations(history)) is is_wrong
