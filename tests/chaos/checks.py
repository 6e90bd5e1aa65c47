"""What must hold of every history, whatever was done to daemon and hosts.

Each check yields a line for each violation, and knows the scheduler only by its events: a fold of
its own, as small as can be, stands beside the scheduler's. tests/chaos/test_checks.py plants a
violation for each.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations

from tests.chaos.history import ENDS, Event, History, Process
from tests.chaos.saved import work

__all__ = ["CHECKS", "violations"]

WOKEN_NS = 3_000_000_000
"""A host that slept through the deadline ends its jobs so long after waking, at the most."""

LAUNCHES_MOST = 5
"""With so many failed launches in a row, a job fails (docs/explanation/live-daemon.md)."""

RELEASES = ("GpusReleased", "AttemptLost", *ENDS)
ONCE = ("AttemptStarted", "LaunchFailed", "AttemptEnded", "AttemptLost", "JobSuspended")

Check = Callable[[History], Iterator[str]]
Gpu = tuple[str, int]
"""A server, and the number of a GPU there."""


def violations(history: History) -> list[str]:
    """Return all that is wrong, each line with the name of its check."""
    return [f"{name}: {line}" for name, check in CHECKS.items() for line in check(history)]


def submissions(history: History) -> Iterator[str]:
    """Every submission that was acknowledged is in the log, and none twice."""
    submitted = Counter(event["job_id"] for event in history.of_kind("JobSubmitted"))
    keys = Counter(event.get("dedupe_key", "") for event in history.of_kind("JobSubmitted"))
    for key, job in sorted(history.ids.items()):
        if submitted[job] != 1:
            yield f"{job} ({key}) was acknowledged and submitted {submitted[job]} times"
    yield from (f"key {key} made {count} jobs" for key, count in keys.items() if count > 1)


def ends(history: History) -> Iterator[str]:
    """Every job ends once, as it must, and nothing is told of it afterwards."""
    for submitted in history.of_kind("JobSubmitted"):
        job = submitted["job_id"]
        told = history.of_job(job)
        ended = [event for event in told if event["kind"] in ENDS]
        if len(ended) != 1:
            yield f"{job} has ended {len(ended)} times; the last of it: {_last(told)}"
            continue
        if told[-1] is not ended[0]:
            yield f"{job} has ended, and then came {_last(told)}"
        if not _is_due(history, job, ended[0], told):
            yield f"{job} ended wrongly: {dict(ended[0])}"


def _is_due(history: History, job: str, end: Event, told: list[Event]) -> bool:
    plan = history.plan_of(job)
    if plan is None or end["kind"] == plan.ends:
        return plan is None or end.get("exit_code", plan.code) == plan.code
    if end["kind"] == "JobCancelled":
        return plan.key in history.cancelled
    starts = ("AttemptStarted", "LaunchFailed")
    last = [event["kind"] for event in told if event["kind"] in starts][-LAUNCHES_MOST:]
    return end["kind"] == "JobFailed" and last == ["LaunchFailed"] * LAUNCHES_MOST


def attempts(history: History) -> Iterator[str]:
    """Attempts are counted upwards, and each starts and ends once."""
    for submitted in history.of_kind("JobSubmitted"):
        job, last = submitted["job_id"], 0
        told = [event for event in history.of_job(job) if event["kind"] in ONCE]
        counted = Counter((event["kind"], event["attempt"]) for event in told)
        for (kind, attempt), count in counted.items():
            if count > 1:
                yield f"{job}, attempt {attempt}: {count} times {kind}"
            if kind == "LaunchFailed" and ("AttemptStarted", attempt) in counted:
                yield f"{job}, attempt {attempt} never started, and it started"
        for event in told:
            if event["attempt"] < last:
                yield f"{job}: {event['kind']} of attempt {event['attempt']} after one of {last}"
            last = max(last, event["attempt"])


def work_done(history: History) -> Iterator[str]:
    """What has finished has done all its steps, every rank of one attempt."""
    for end in history.of_kind("JobFinished"):
        job, plan = end["job_id"], history.plan_of(end["job_id"])
        if plan is None:
            continue
        done: dict[int, set[int]] = defaultdict(set)
        worlds: dict[int, int] = {}
        for process in history.processes_of(job):
            if process.begun is not None:
                worlds[process.attempt] = process.begun.said["world"]
            if any(sign.step == plan.steps for sign in process.steps("done")):
                done[process.attempt].add(process.rank)
        if not any(len(done[attempt]) == world for attempt, world in worlds.items()):
            yield f"{job} has finished, and no attempt has done its {plan.steps} steps"


def runs(history: History) -> Iterator[str]:
    """No rank of an attempt runs twice, and no two attempts of a job at once."""
    by_job: dict[str, list[Process]] = defaultdict(list)
    for process in history.processes:
        by_job[process.job].append(process)
    for job in sorted(by_job):
        begun = [each for each in by_job[job] if each.begun]
        counted = Counter((each.attempt, each.rank) for each in begun)
        for (attempt, rank), count in counted.items():
            if count > 1:
                yield f"{job}, attempt {attempt}, rank {rank} began {count} times"
        for one, other in combinations(by_job[job], 2):
            is_again = one.rank == other.rank and one in begun and other in begun
            is_apart = one.attempt != other.attempt or is_again
            if is_apart and (both_ms := _both_ms(history, one, other)):
                yield f"{one} and {other} ran at once for {both_ms:.0f} ms"


def gpus(history: History) -> Iterator[str]:
    """No GPU is used by two attempts at once."""
    users: dict[tuple[str, str], list[Process]] = defaultdict(list)
    given: dict[tuple[str, int, int, str], list[str]] = {}
    for process in history.processes:
        if process.begun is not None:
            given[process.job, process.attempt, process.rank, process.node] = process.gpus
    for process in history.processes:  # helpers are where their rank is
        key = process.job, process.attempt, process.rank, process.node
        for gpu in given.get(key, ()):
            users[process.node, gpu].append(process)
    for (node, gpu), found in sorted(users.items()):
        for one, other in combinations(found, 2):
            is_other = (one.job, one.attempt) != (other.job, other.attempt)
            if is_other and (both_ms := _both_ms(history, one, other)):
                yield f"GPU {gpu} of {node} had {one} and {other} at once for {both_ms:.0f} ms"


def locks(history: History) -> Iterator[str]:
    """Nobody finds what it was given in another's hands."""
    for process in history.processes:
        for sign in process.steps("taken"):
            holder = sign.said["by"].split(".")
            if len(holder) == 4 and _sleeps(history, holder[3], sign.ns):
                continue
            yield f"{process} found {sign.said['name']} taken by {sign.said['by'] or 'somebody'}"


def _both_ms(history: History, one: Process, other: Process) -> float:
    """Return for how long two processes both gave signs of life, but for the sleep of a host."""
    awake = [
        [sign.ns for sign in each.signs if not _sleeps(history, each.node, sign.ns)]
        for each in (one, other)
    ]
    if not all(awake):
        return 0.0
    begun_ns, over_ns = max(each[0] for each in awake), min(each[-1] for each in awake)
    return max(0, over_ns - begun_ns) / 1e6


def _sleeps(history: History, node: str, ns: int) -> bool:
    """Say whether a host that was given up slept at an instant, or had just woken."""
    is_lost = any(event["node"] == node for event in history.of_kind("NodeLost"))
    frozen = [each for each in history.freezes if each.node == node]
    return is_lost and any(each.from_ns <= ns <= each.until_ns + WOKEN_NS for each in frozen)


def holds(history: History) -> Iterator[str]:
    """By the log alone, no GPU is held by two jobs at once."""
    held: dict[Gpu, str] = {}
    for event, may_be in _grants(history):
        kind, job = event["kind"], event.get("job_id", "")
        # What it was launched on is certain where nothing else was decided meanwhile.
        if kind == "AttemptStarted" and len(may_be) == 1:
            for gpu in sorted(may_be[0]):
                if held.get(gpu, job) != job:
                    yield f"e{event['seq']}: {job} starts on GPU {gpu} while {held[gpu]} holds it"
                held[gpu] = job
        elif kind in RELEASES:
            held = {gpu: holder for gpu, holder in held.items() if holder != job}
    yield from (f"{job} holds GPU {gpu} at the end" for gpu, job in sorted(held.items()))


def given(history: History) -> Iterator[str]:
    """Each process runs where the log has put its attempt, and on those GPUs."""
    placed = {
        (event["job_id"], event["attempt"]): may_be
        for event, may_be in _grants(history)
        if event["kind"] == "AttemptStarted"
    }
    for process in history.processes:
        may_be = placed.get((process.job, process.attempt))
        if process.begun is None or may_be is None:
            continue
        has = {(process.node, int(gpu)) for gpu in process.gpus}
        there = [{gpu for gpu in grant if gpu[0] == process.node} for grant in may_be]
        if has not in there:
            yield f"{process} has GPUs {sorted(has)}, the log says {list(map(sorted, may_be))}"


def _grants(history: History) -> Iterator[tuple[Event, list[set[Gpu]]]]:
    """Yield each event with the GPUs on which the job may have been launched by then.

    A decision may be taken back or replaced before what it led to is told, so it may be any since
    the job last left its GPUs.
    """
    wanted: dict[str, set[Gpu]] = {}
    may_be: dict[str, list[set[Gpu]]] = defaultdict(list)
    for event in history.events:
        kind, job = event["kind"], event.get("job_id", "")
        if kind == "AllocationChanged":
            wanted[job] = _gpus_of(event)
            if wanted[job] and wanted[job] not in may_be[job]:
                may_be[job].append(wanted[job])
        yield event, list(may_be[job])
        if kind in ("AttemptLost", "LaunchFailed", *ENDS):  # it is back in the queue, or gone
            wanted[job], may_be[job] = set(), []
        elif kind == "GpusReleased":
            may_be[job] = [wanted[job]] if wanted.get(job) else []


def _gpus_of(event: Event) -> set[Gpu]:
    shares = event["allocation"].get("shares", ())
    return {
        (share["node"], number)
        for share in shares
        for number in range(share["gpu_mask"].bit_length())
        if share["gpu_mask"] >> number & 1
    }


def log(history: History) -> Iterator[str]:
    """The export is the whole log: its numbers have no gap, and SQL knows as many."""
    numbers = [event["seq"] for event in history.events]
    if numbers != list(range(1, len(numbers) + 1)):
        yield "the numbers of the events have gaps"
    if history.rows is not None and history.rows != len(numbers):
        yield f"{len(numbers)} events were exported, the head of the log says {history.rows}"


def complaints(history: History) -> Iterator[str]:
    """Nothing else went wrong: a command, the daemon, a job that raised."""
    yield from (f"{kind}: {line}" for kind, line in history.complaints)
    for process in history.processes:
        for sign in process.signs:
            if sign.what in ("raised", "corrupt"):
                yield f"{process} {sign.what}: {dict(sign.said)}"


def _last(told: list[Event]) -> str:
    return ", ".join(f"e{event['seq']} {event['kind']}" for event in told[-3:])


CHECKS: dict[str, Check] = {
    "submissions": submissions,
    "ends": ends,
    "attempts": attempts,
    "work done": work_done,
    "runs": runs,
    "gpus": gpus,
    "locks": locks,
    "holds": holds,
    "given": given,
    "work": work,
    "log": log,
    "complaints": complaints,
}
