"""How often jobs start and end within the P50 and the P90 that were foretold for them.

    python -m benchmarks.analysis.forecasts [--policies fifo,fifo_easy] [--loads 0.8,1.2,1.6]
        [--seeds 1-5] [--jobs 300] [--moments 12] [--each 4] [--workload philly-like]
        [--processes 1] [--table]

For each policy, load and seed such jobs are generated and simulated on 16 GPUs. At random instants,
while the middle of them comes, a forecast is made by the code of `shunter queue --eta`, from the
log up to then alone: of the starts of jobs that wait, and of the ends of all. A job is asked about
once for each, and at most so many at an instant, drawn at random: those that wait behind the same
job come sooner or later together, so many of them say little more than one. Jobs whose start is
certain (all simulations say the same) are counted apart: with them P50 holds always.

Prints a JSON document for each policy: of starts and of ends the share that came by P50 and by P90,
where those were foretold, and the share whose P90 was not. `--table` prints all as Markdown at the
end, by load and by seed.
"""

import argparse
import asyncio
import json
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from random import Random
from typing import NamedTuple

from shunter.app.config import make_config
from shunter.app.forking.fork_point import fork_point
from shunter.app.predictions.forecast import Forecasting, Quantiles
from shunter.app.predictions.history import History, read_history
from shunter.app.runs.setup import rebuild
from shunter.app.runs.simulation import simulate
from shunter.app.simulated_world import recorded_parts
from shunter.core.state import Job
from shunter.events.log import LogReader, read_log
from shunter.events.values.ids import JobId

LEAST_PERCENT, MOST_PERCENT, ASKED_LEAST = 85.0, 95.0, 400
NODES, GPUS = 4, 4
POLICIES = "fifo,fifo_easy,las,tiresias,drf,gittins"
FIRST, LAST = 0.25, 0.85
"""The part of the time in which jobs come, in which it is asked."""


class Run(NamedTuple):
    """One log."""

    policy: str
    load: float
    seed: int
    workload: str
    jobs: int
    moments: int
    each: int


class Asked(NamedTuple):
    """A forecast, and when it came; instants in microseconds."""

    what: str
    came_us: int
    p50_us: int | None
    p90_us: int | None


class Shares(NamedTuple):
    """How many were asked about, and the percentages of what held."""

    asked: int
    certain: int
    p50: float | None
    p90: float | None
    unknown: float | None


def asked_in(run: Run) -> list[Asked]:
    """Simulate a log, make forecasts in it, and return what came of them."""
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "log.db")
        generate = {"kind": run.workload, "jobs": run.jobs, "load": run.load}
        config = {
            "seed": run.seed,
            "cluster": {"nodes": [{"name": f"n[1-{NODES}]", "gpus": GPUS}]},
            "workload": {"generate": generate},
            "policy": {"name": run.policy},
            "log": {"url": url},
        }
        simulate(make_config(config, "benchmark"), overwrite=True)
        return asyncio.run(_asked(url, run))


async def _asked(url: str, run: Run) -> list[Asked]:
    rng = Random(f"{run.seed}/moments")
    async with read_log(url) as reader:
        history = await read_history(reader)
        instants = [event.at_us async for event in reader.events()]
        submitted = [event.at_us for _, event in history.submissions.values()]
        span_us = submitted[-1] - submitted[0]
        moments = sorted(
            submitted[0] + int(span_us * rng.uniform(FIRST, LAST)) for _ in range(run.moments)
        )
        found: list[Asked] = []
        done: set[tuple[str, JobId]] = set()
        for now_us in moments:
            seq = bisect_right(instants, now_us)
            found += await _at(reader, history, seq, now_us, run.each, rng, done)
    return found


async def _at(
    reader: LogReader,
    history: History,
    seq: int,
    now_us: int,
    each: int,
    rng: Random,
    done: set[tuple[str, JobId]],
) -> list[Asked]:
    """Ask at a moment, and return what came of it; `done` are those asked about before."""
    point = await fork_point(reader, seq, rebuild)
    jobs = list(point.state().jobs.values())
    starts = _some(jobs, "start", each, rng, done)
    ends = _some(jobs, "end", each, rng, done)
    if not (starts or ends):
        return []
    forecasting = Forecasting(history, recorded_parts(point.started.config))
    told = await forecasting.forecast(point, dict.fromkeys((*starts, *ends)), now_us=now_us)
    launches = {job_id: history.launches[job_id] for job_id in starts}
    return [
        *(
            _of(
                "start",
                launches[job_id][bisect_right(launches[job_id], now_us)],
                told.starts[job_id],
            )
            for job_id in starts
        ),
        *(_of("end", history.ends[job_id], told.ends[job_id]) for job_id in ends),
    ]


def _some(
    jobs: Iterable[Job], what: str, each: int, rng: Random, done: set[tuple[str, JobId]]
) -> list[JobId]:
    """Return some jobs that were not asked about; of their starts only those that wait."""
    fresh = [
        job.job_id
        for job in jobs
        if (what, job.job_id) not in done and (what == "end" or job.since_us is None)
    ]
    chosen = rng.sample(fresh, min(each, len(fresh)))
    done.update((what, job_id) for job_id in chosen)
    return chosen


def _of(what: str, came_us: int, told: Quantiles) -> Asked:
    return Asked(what, came_us, told.p50_us, told.p90_us)


def shares(found: Sequence[Asked], what: str) -> Shares:
    """Return how forecasts of starts or of ends held."""
    of_kind = [each for each in found if each.what == what]
    certain = [each for each in of_kind if each.p50_us is not None and each.p50_us == each.p90_us]
    open_ones = [each for each in of_kind if each.p50_us is None or each.p50_us != each.p90_us]
    p50 = [each.came_us <= each.p50_us for each in open_ones if each.p50_us is not None]
    p90 = [each.came_us <= each.p90_us for each in open_ones if each.p90_us is not None]
    unknown = [each.p90_us is None for each in open_ones]
    return Shares(len(of_kind), len(certain), _percent(p50), _percent(p90), _percent(unknown))


def _percent(held: Sequence[bool]) -> float | None:
    return round(100 * sum(held) / len(held), 1) if held else None


def document(policy: str, found: Sequence[Asked], cpu_s: float, least: int) -> dict[str, object]:
    """Return what is printed of a policy; a budget is of enough askings only."""
    starts, ends = shares(found, "start"), shares(found, "end")
    has_enough = len(found) >= least
    return {
        "benchmark": "analysis_forecasts",
        "policy": policy,
        "askings": len(found),
        "starts": starts._asdict(),
        "ends": ends._asdict(),
        "starts_p90_percent": starts.p90 or 0.0,
        "ends_p90_percent": ends.p90 or 0.0,
        "budget_least_percent": LEAST_PERCENT if has_enough else None,
        "budget_most_percent": MOST_PERCENT if has_enough else None,
        "cpu_s": round(cpu_s, 1),
    }


SHARES = ("by P50", "by P90", "not told")


def table(found: Sequence[tuple[Run, Sequence[Asked]]]) -> list[str]:
    """Return a Markdown table: each policy, then by load, then by seed."""
    lines = [
        " | ".join(("| policy", "load", "seed", "starts", *SHARES, "ends", *SHARES)) + " |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for policy in dict.fromkeys(run.policy for run, _ in found):
        of_policy = [(run, asked) for run, asked in found if run.policy == policy]
        lines.append(_row(policy, "all", "all", [asked for _, asked in of_policy]))
        for load in dict.fromkeys(run.load for run, _ in of_policy):
            some = [asked for run, asked in of_policy if run.load == load]
            lines.append(_row(policy, str(load), "all", some))
        for seed in dict.fromkeys(run.seed for run, _ in of_policy):
            some = [asked for run, asked in of_policy if run.seed == seed]
            lines.append(_row(policy, "all", str(seed), some))
    return lines


def _row(policy: str, load: str, seed: str, asked: Sequence[Sequence[Asked]]) -> str:
    every = [each for one in asked for each in one]
    cells = [policy, load, seed]
    for what in ("start", "end"):
        found = shares(every, what)
        certain = f" ({found.certain} certain)" if found.certain else ""
        cells.append(f"{found.asked}{certain}")
        cells += [
            "-" if part is None else f"{part:.1f}" for part in (found.p50, found.p90, found.unknown)
        ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print a JSON document for each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--moments", type=int, default=12)
    parser.add_argument("--each", type=int, default=4, help="askings of a kind at a moment")
    parser.add_argument("--loads", default="0.8,1.2,1.6")
    parser.add_argument("--seeds", default="1-5", help="the first and the last")
    parser.add_argument("--workload", default="philly-like")
    parser.add_argument("--least", type=int, default=ASKED_LEAST, help="askings for a verdict")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print a Markdown table as well")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds, loads = range(int(first), int(last or first) + 1), options.loads.split(",")
    sizes = options.jobs, options.moments, options.each
    every: list[tuple[Run, Sequence[Asked]]] = []
    with ProcessPoolExecutor(options.processes) as pool:
        for policy in options.policies.split(","):
            runs = [
                Run(policy, float(load), seed, options.workload, *sizes)
                for load, seed in product(loads, seeds)
            ]
            timed = list(pool.map(_timed, runs))
            found = [each for asked, _ in timed for each in asked]
            cpu_s = sum(cpu_s for _, cpu_s in timed)
            print(json.dumps(document(policy, found, cpu_s, options.least)), flush=True)
            every += zip(runs, (asked for asked, _ in timed), strict=True)
    if options.table:
        print("\n".join(table(every)))


def _timed(run: Run) -> tuple[list[Asked], float]:
    begun_s = time.process_time()
    return asked_in(run), time.process_time() - begun_s


if __name__ == "__main__":
    main()
