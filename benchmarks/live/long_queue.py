"""A live scheduler with a long queue: how long a round takes, what it occupies, how it restarts.

    python -m benchmarks.live.long_queue [--queued 10000] [--ended 20000] [--policies las,gavel]
    python -m benchmarks.live.long_queue --past 200000,1000000 [--folder FOLDER]

Jobs are submitted as the API does it, and wait behind a gang that holds every GPU. Then that ends,
and short jobs run in its place. `round_s` is the longest step of the core in which it planned while
they come and go, `round_cpu_s` the most of the loop's own time in such a step: the supervisors of
jobs that start and end work on the same cores. `rss_mib` is what the process occupies then, and
`restart_s` what opening the same cluster takes in a new process, with the jobs that have ended in
its log. Without `--queued` 100,000 wait under `las`, for which the budgets are, and 10,000 under
the others. Prints JSON, a line for each policy.

With `--past`, what a restart costs after so many jobs: the log is written as a live scheduler
writes it, but nothing runs: each job is submitted under a key, cancelled, and gone. The cluster is
opened twice, each time in a new process. `first_s` is the first time, which brings a log of an
older version up to date, `restart_s` and `rss_mib` are of the second. Logs stay in a folder that is
named, and are taken from there.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import anyio

from shunter.ask import fold_events
from shunter.config import LoadedConfig, make_config
from shunter.core import CancelJob, State
from shunter.daemon import Caller, PolicyProxy, Site, Submission, open_site
from shunter.events import (
    Event,
    JobCancelled,
    JobCancelRequested,
    JobId,
    JobSpec,
    JobSubmitted,
    SchedulerStarted,
    UserName,
)
from shunter.events.log import open_log, seal
from shunter.run import snapshot_of_state

T = TypeVar("T")
QUEUED = {"las": 100_000, "tiresias": 10_000, "srtf": 10_000, "gavel": 10_000}
BUDGETS_ROUND_S = {"las": 0.05}
BUDGET_ROUND_S = 0.2
BUDGETS_RSS_MIB = {"las": 600}
BUDGET_RSS_MIB = 300
BUDGET_RESTART_S = 3.0
WHOEVER = Caller("", None)
TOGETHER = 500
SLEEPS = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)")
STEP, SNAPSHOT = 300, 5_000
ORIGIN = json.dumps({"origin": "2026-01-01T00:00:00+00:00"})
SHORT = ("sleep", "0.1")
ROUND_S = 0.5


def config(root: Path, policy: str) -> LoadedConfig:
    """Return a cluster of four servers with four made-up GPUs each."""
    local = {"root": str(root / "attempts"), "grace": 0.2}
    return make_config(
        {
            "cluster": {"nodes": [{"name": "n[1-4]", "gpus": 4}]},
            "policy": {"name": policy, "round": ROUND_S},
            "backend": {"kind": "local", "local": local},
            "log": {"url": str(root / "log.db")},
        }
    )


class Watched:
    """Times the steps in which a scheduler plans: of every one in this process, from now on.

    The policy's own process is asked in them, so a step takes longer than the loop's thread works.
    """

    def __init__(self) -> None:
        self.rounds_s: list[float] = []
        self.rounds_cpu_s: list[float] = []
        step = PolicyProxy.step

        async def timed(asked, core, *rest):  # type: ignore[no-untyped-def]  # as what it is for
            begun_s, cpu_s = time.perf_counter(), time.thread_time()
            planned = core.state.rounds_planned
            done = await step(asked, core, *rest)
            if core.state.rounds_planned > planned:
                self.rounds_s.append(time.perf_counter() - begun_s)
                self.rounds_cpu_s.append(time.thread_time() - cpu_s)
            return done

        PolicyProxy.step = timed  # type: ignore[method-assign]  # see above


async def fill(site: Site, ended: int, queued: int) -> float:
    """Let jobs end, and others wait; return the seconds a submission took."""
    holder = await site.submit(Submission(JobSpec(command=SLEEPS, gpus=16)), WHOEVER)
    await until(site, lambda: site.state.jobs[holder].working_since_us is not None)
    for first in range(0, ended, TOGETHER):
        ids = await submitted(site, range(first, min(ended, first + TOGETHER)))
        async with anyio.create_task_group() as tasks:
            for job_id in ids:
                tasks.start_soon(site.tell, lambda at_us, job_id=job_id: CancelJob(at_us, job_id))
    begun_s = time.perf_counter()
    for first in range(0, queued, TOGETHER):
        await submitted(site, range(first, min(queued, first + TOGETHER)))
    return (time.perf_counter() - begun_s) / queued


async def until(site: Site, done: Callable[[], bool]) -> None:
    """Wait until something is so, while events come."""
    if not done():
        async for _ in site.follow(site.committed):
            if done():
                return


async def submitted(site: Site, numbers: range) -> list[JobId]:
    """Submit jobs of many kinds together, by many users."""
    requests = [
        Submission(
            JobSpec(
                command=SHORT,
                gpus=1 + number % 8,
                name=f"job-{number}",
                time_limit_us=60_000_000 + number % 997,
            )
        )
        for number in numbers
    ]
    return await site.submit_together(requests, WHOEVER)


async def let_go(site: Site, watched: Watched, rounds: int) -> None:
    """End the job that holds all GPUs, and let others have them for some rounds."""
    await site.tell(site.commands.cancel(JobId("j1"), WHOEVER))
    planned = len(watched.rounds_s)
    with anyio.fail_after(60):
        await until(site, lambda: len(watched.rounds_s) >= planned + rounds)


def rss_mib() -> float:
    """Return what this process occupies."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)


async def work(root: Path, policy: str, ended: int, queued: int) -> dict[str, object]:
    """Fill a queue and measure rounds."""
    async with open_site(config(root, policy)) as site, anyio.create_task_group() as tasks:
        watched = Watched()
        tasks.start_soon(site.run)
        submit_s = await fill(site, ended, queued)
        await let_go(site, watched, 8)
        found: dict[str, object] = {
            "queued": len(site.state.jobs),
            "rounds": len(watched.rounds_s),
            "ended": sum(site.state.outcomes.values()),
            "submit_ms": round(submit_s * 1e3, 2),
            "round_s": round(max(watched.rounds_s[-8:]), 4),
            "round_cpu_s": round(max(watched.rounds_cpu_s[-8:]), 4),
            "rss_mib": round(rss_mib(), 1),
        }
        site.stop()
    return found


async def restart(root: Path, policy: str) -> dict[str, object]:
    """Open the same cluster again."""
    begun_s, cpu_s = time.perf_counter(), time.process_time()
    async with open_site(config(root, policy)) as site:
        took_s = time.perf_counter() - begun_s
        found: dict[str, object] = {
            "restart_s": round(took_s, 3),
            "restart_cpu_s": round(time.process_time() - cpu_s, 3),
            "restart_rss_mib": round(rss_mib(), 1),
        }
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(site.run)
            site.stop()
    return found


def story(ended: int) -> Iterator[Event]:
    """Yield the events of a cluster in which so many jobs came and were cancelled."""
    yield SchedulerStarted(0, 1, "0", "las", "1", 0, ORIGIN, cluster_id="bench", simulated=False)
    specs = [JobSpec(gpus=1 + n % 8, user=UserName(f"user{n}")) for n in range(50)]
    for number in range(1, ended + 1):
        job_id, at_us = JobId(f"j{number}"), number * 1_000
        yield JobSubmitted(at_us, job_id, specs[number % 50], dedupe_key=f"key-{number}")
        yield JobCancelRequested(at_us, job_id)
        yield JobCancelled(at_us, job_id)


async def write(root: Path, ended: int) -> None:
    """Write the log of a cluster that has stopped."""
    state, events, due = State(), story(ended), SNAPSHOT
    async with open_log(str(root / "log.db"), frame_events=None, resume=True) as log:
        while step := [*islice(events, STEP)]:
            log.append(step)
            fold_events(state, step)
            await log.commit()
            if state.seq >= due:
                due = state.seq + SNAPSHOT
                await log.save_snapshot(snapshot_of_state(state, b""))
                await log.thin_snapshots(lambda seqs: seqs[:-2])
        await log.save_snapshot(snapshot_of_state(state, b""))
        await log.commit()
        await seal(log, max(0, state.seq - 100_000))


def apart(run: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run something in a process of its own, which has done nothing before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found: T = pool.apply(anyio.run, (run, *arguments))
    return found


def long_lived(root: Path, policy: str, ended: int) -> dict[str, object]:
    """Write a log, unless there is one, and open its cluster twice."""
    if not (root / "log.db").exists():
        apart(write, root, ended)
    begun_s = time.perf_counter()
    first = apart(restart, root, policy)
    took_s = time.perf_counter() - begun_s
    second = apart(restart, root, policy)
    size = (root / "log.db").stat().st_size
    return {
        "benchmark": "live_long_queue past",
        "ended": ended,
        "first_s": first["restart_s"],
        "first_whole_s": round(took_s, 2),
        "restart_s": second["restart_s"],
        "restart_cpu_s": second["restart_cpu_s"],
        "rss_mib": second["restart_rss_mib"],
        "log_mib": round(size / (1 << 20), 1),
    }


def main() -> None:
    """Measure, and print a JSON document for each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queued", type=int, help="jobs that wait, under each policy")
    parser.add_argument("--ended", type=int, default=20_000)
    parser.add_argument("--policies", default=",".join(QUEUED))
    parser.add_argument("--past", default="", help="jobs that ended, by count")
    parser.add_argument("--folder", type=Path, help="where logs of --past are kept")
    options = parser.parse_args()
    if options.past:
        for count in map(int, options.past.split(",")):
            with tempfile.TemporaryDirectory() as temporary:
                root = (options.folder or Path(temporary)) / str(count)
                root.mkdir(parents=True, exist_ok=True)
                print(json.dumps(long_lived(root, "las", count)), flush=True)
        return
    for policy in options.policies.split(","):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            document = {"benchmark": "live_long_queue", "policy": policy}
            queued = options.queued or QUEUED.get(policy, 10_000)
            document |= apart(work, root, policy, options.ended, queued)
            document |= apart(restart, root, policy)
        document |= {
            "budget_round_s": BUDGETS_ROUND_S.get(policy, BUDGET_ROUND_S),
            "budget_rss_mib": BUDGETS_RSS_MIB.get(policy, BUDGET_RSS_MIB),
            "budget_restart_s": BUDGET_RESTART_S,
        }
        print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
