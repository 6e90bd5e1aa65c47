"""How often jobs start and end within the P50 and the P90 that were foretold for them.

    python -m benchmarks.analysis.forecasts [--policies fifo,fifo_easy] [--loads 0.8,1.2,1.6]
        [--seeds 1-5] [--jobs 300] [--moments 40] [--each 10] [--workload philly-like]
        [--waiting] [--processes 1] [--table]

For each policy, load and seed such jobs are generated and simulated on 16 GPUs. At random instants,
while the middle of them comes, a forecast is made by the code of `shunter queue --eta`, from the
log up to then alone: of the starts of jobs that wait, and of the ends of all. A wait is asked about
once, a job's end too, and at most so many at an instant, drawn at random. Jobs whose start is
certain (all simulations say the same) are counted apart: with them P50 holds always.

Those that wait behind the same job come sooner or later together, and a seed has the same jobs at
each load. So the seeds are what is independent: beside each share stands half its 95 % interval
over them (the linearised variance of a ratio of cluster totals; Cochran, Sampling Techniques, 1977,
chapter 6; Student's t). `waits` are how many there are in that time that are longer than a round,
those asked about or not: where jobs are preempted instead, there are few. `--waiting` asks only at
instants at which some job waits, for as many starts with fewer forecasts.

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
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from math import fsum, sqrt
from pathlib import Path
from random import Random
from typing import NamedTuple

from shunter.ask import fold_events
from shunter.ask.forks import Forecasting, History, Quantiles, fork_point, read_history
from shunter.config import make_config
from shunter.core import Job, State
from shunter.events import Event, JobId
from shunter.events.log import LogReader, read_log
from shunter.run import rebuild, recorded_parts, simulate, students_t

LEAST_PERCENT, MOST_PERCENT, ASKED_LEAST = 85.0, 95.0, 400
NODES, GPUS = 4, 4
POLICIES = "fifo,fifo_easy,las,tiresias,drf,gittins"
FIRST, LAST = 0.25, 0.85
"""The part of the time in which jobs come, in which it is asked."""

CANDIDATES = 20
"""Of so many times as many instants those are taken at which jobs wait, with `--waiting`."""


class Run(NamedTuple):
    """One log."""

    policy: str
    load: float
    seed: int
    workload: str
    jobs: int
    moments: int
    each: int
    must_wait: bool = False


class Asked(NamedTuple):
    """A forecast, and when it came; instants in microseconds."""

    what: str
    came_us: int
    p50_us: int | None
    p90_us: int | None


class Found(NamedTuple):
    """What came of the forecasts in a log, and how many waits there were."""

    asked: Sequence[Asked]
    waits: int
    cpu_s: float


class Shares(NamedTuple):
    """How many were asked about, and the percentages of what held, with half their intervals."""

    asked: int
    certain: int
    p50: float | None
    p50_ci95: float | None
    p90: float | None
    p90_ci95: float | None
    unknown: float | None


def found_in(run: Run) -> Found:
    """Simulate a log, make forecasts in it, and return what came of them."""
    begun_s = time.process_time()
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
        loaded = make_config(config, "benchmark")
        simulate(loaded, overwrite=True)
        asked, waits = asyncio.run(_asked(url, run, loaded.config.policy.round_us))
    return Found(asked, waits, time.process_time() - begun_s)


async def _asked(url: str, run: Run, round_us: int) -> tuple[list[Asked], int]:
    rng = Random(f"{run.seed}/moments")
    async with read_log(url) as reader:
        history = await read_history(reader)
        events = [event async for event in reader.events()]
        instants = [event.at_us for event in events]
        submitted = [event.at_us for _, event in history.submissions.values()]
        span_us = submitted[-1] - submitted[0]
        begin_us, end_us = (submitted[0] + int(span_us * part) for part in (FIRST, LAST))
        waits = _waits(events)
        moments = [
            submitted[0] + int(span_us * rng.uniform(FIRST, LAST))
            for _ in range(run.moments * (CANDIDATES if run.must_wait else 1))
        ]
        if run.must_wait:
            moments = [each for each in moments if any(a <= each < b for a, b in waits)]
        found: list[Asked] = []
        done: set[tuple[str, JobId, int]] = set()
        for now_us in sorted(moments[: run.moments]):
            seq = bisect_right(instants, now_us)
            found += await _at(reader, history, seq, now_us, run.each, rng, done)
        count = sum(b - a > round_us and a < end_us and b > begin_us for a, b in waits)
        return found, count


def _waits(events: Iterable[Event]) -> list[tuple[int, int]]:
    """Return from when until when jobs waited for GPUs that they got."""
    state, since, found = State(), dict[JobId, int](), list[tuple[int, int]]()
    for event in events:
        fold_events(state, (event,))
        job = state.jobs.get(getattr(event, "job_id", JobId("")))
        if job is None:
            continue
        if job.since_us is None:
            since.setdefault(job.job_id, event.at_us)
        elif (since_us := since.pop(job.job_id, None)) is not None:
            found.append((since_us, event.at_us))
    return found


async def _at(
    reader: LogReader,
    history: History,
    seq: int,
    now_us: int,
    each: int,
    rng: Random,
    done: set[tuple[str, JobId, int]],
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
    jobs: Iterable[Job], what: str, each: int, rng: Random, done: set[tuple[str, JobId, int]]
) -> list[JobId]:
    """Return some jobs that were not asked about; of their starts only those that wait.

    A job that was preempted waits for another start.
    """
    fresh = [
        (what, job.job_id, job.attempt if what == "start" else 0)
        for job in jobs
        if what == "end" or job.since_us is None
    ]
    fresh = [each for each in fresh if each not in done]
    chosen = rng.sample(fresh, min(each, len(fresh)))
    done.update(chosen)
    return [job_id for _, job_id, _ in chosen]


def _of(what: str, came_us: int, told: Quantiles) -> Asked:
    return Asked(what, came_us, told.p50_us, told.p90_us)


def shares(found: Sequence[tuple[Run, Found]], what: str) -> Shares:
    """Return how forecasts of starts or of ends held."""
    by_seed: dict[int, list[Asked]] = defaultdict(list)
    for run, of_run in found:
        by_seed[run.seed] += [each for each in of_run.asked if each.what == what]
    every = [each for asked in by_seed.values() for each in asked]
    uncertain = {
        seed: [each for each in asked if each.p50_us is None or each.p50_us != each.p90_us]
        for seed, asked in by_seed.items()
    }
    p50 = _percent(uncertain, lambda each: each.p50_us)
    p90 = _percent(uncertain, lambda each: each.p90_us)
    left = [each for asked in uncertain.values() for each in asked]
    unknown = sum(each.p90_us is None for each in left)
    return Shares(
        len(every),
        len(every) - len(left),
        *p50,
        *p90,
        round(100 * unknown / len(left), 1) if left else None,
    )


def _percent(
    by_seed: Mapping[int, Sequence[Asked]], limit: Callable[[Asked], int | None]
) -> tuple[float | None, float | None]:
    """Return the percentage that came by a limit, and half its 95 % interval over the seeds."""
    totals = []
    for asked in by_seed.values():
        held = [each.came_us <= at_us for each in asked if (at_us := limit(each)) is not None]
        totals.append((sum(held), len(held)))
    count = sum(asked for _, asked in totals)
    if not count:
        return None, None
    share = sum(held for held, _ in totals) / count
    if len(totals) < 2:
        return round(100 * share, 1), None
    squares = fsum((held - share * asked) ** 2 for held, asked in totals)
    error = sqrt(len(totals) / (len(totals) - 1) * squares) / count
    return round(100 * share, 1), round(100 * students_t(len(totals) - 1) * error, 1)


def document(policy: str, found: Sequence[tuple[Run, Found]], least: int) -> dict[str, object]:
    """Return what is printed of a policy; a budget is of enough askings only."""
    starts, ends = shares(found, "start"), shares(found, "end")
    askings = sum(len(of_run.asked) for _, of_run in found)
    has_enough = askings >= least
    return {
        "benchmark": "analysis_forecasts",
        "policy": policy,
        "askings": askings,
        "waits": sum(of_run.waits for _, of_run in found),
        "starts": starts._asdict(),
        "ends": ends._asdict(),
        "starts_p90_percent": starts.p90 or 0.0,
        "ends_p90_percent": ends.p90 or 0.0,
        "budget_least_percent": LEAST_PERCENT if has_enough else None,
        "budget_most_percent": MOST_PERCENT if has_enough else None,
        "cpu_s": round(fsum(of_run.cpu_s for _, of_run in found), 1),
    }


SHARES = ("by P50", "by P90", "not told")


def table(found: Sequence[tuple[Run, Found]]) -> list[str]:
    """Return a Markdown table: each policy, then by load, then by seed."""
    lines = [
        " | ".join(("| policy", "load", "seed", "waits", "starts", *SHARES, "ends", *SHARES))
        + " |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for policy in dict.fromkeys(run.policy for run, _ in found):
        of_policy = [(run, of_run) for run, of_run in found if run.policy == policy]
        lines.append(_row(policy, "all", "all", of_policy))
        for load in dict.fromkeys(run.load for run, _ in of_policy):
            some = [each for each in of_policy if each[0].load == load]
            lines.append(_row(policy, str(load), "all", some))
        for seed in dict.fromkeys(run.seed for run, _ in of_policy):
            some = [each for each in of_policy if each[0].seed == seed]
            lines.append(_row(policy, "all", str(seed), some))
    return lines


def _row(policy: str, load: str, seed: str, found: Sequence[tuple[Run, Found]]) -> str:
    cells = [policy, load, seed, str(sum(of_run.waits for _, of_run in found))]
    for what in ("start", "end"):
        held = shares(found, what)
        certain = f" ({held.certain} certain)" if held.certain else ""
        cells.append(f"{held.asked}{certain}")
        cells += [_cell(held.p50, held.p50_ci95), _cell(held.p90, held.p90_ci95)]
        cells.append(_cell(held.unknown, None))
    return f"| {' | '.join(cells)} |"


def _cell(share: float | None, half_width: float | None) -> str:
    if share is None:
        return "-"
    return f"{share:.1f}" if half_width is None else f"{share:.1f} ± {half_width:.1f}"


def main() -> None:
    """Measure, and print a JSON document for each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--moments", type=int, default=40)
    parser.add_argument("--each", type=int, default=10, help="askings of a kind at a moment")
    parser.add_argument("--loads", default="0.8,1.2,1.6")
    parser.add_argument("--seeds", default="1-5", help="the first and the last")
    parser.add_argument("--workload", default="philly-like")
    parser.add_argument("--least", type=int, default=ASKED_LEAST, help="askings for a verdict")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--waiting", action="store_true", help="ask where jobs wait, not anywhere")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print a Markdown table as well")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds, loads = range(int(first), int(last or first) + 1), options.loads.split(",")
    sizes = options.jobs, options.moments, options.each, options.waiting
    every: list[tuple[Run, Found]] = []
    with ProcessPoolExecutor(options.processes) as pool:
        for policy in options.policies.split(","):
            runs = [
                Run(policy, float(load), seed, options.workload, *sizes)
                for load, seed in product(loads, seeds)
            ]
            found = list(zip(runs, pool.map(found_in, runs), strict=True))
            print(json.dumps(document(policy, found, options.least)), flush=True)
            every += found
    if options.table:
        print("\n".join(table(every)))


if __name__ == "__main__":
    main()
