"""All budget benchmarks, one after the other, and a table of measured against budget.

    python -m benchmarks.run [--quick] [--only philly,startup] [--json] [--list]

Machines differ by half, and so does one machine from hour to hour: before each benchmark the loop
of `loop.py` is timed, and every time is also given in loops, every rate as so many a loop.

Exits 0 also where a budget is missed (the machine may be busy), and 1 where a benchmark failed.
`--quick` measures everything once and small: it shows that the benchmarks run, not how fast we are.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from benchmarks.commands import ROOT
from benchmarks.loop import loop_s


@dataclass(frozen=True)
class Measure:
    """One number of a benchmark's document, and the key of its budget.

    `seconds` is how long one of its unit is: None where it is no time. A rate is one a second.
    """

    key: str
    budget: str
    unit: str
    is_rate: bool = False
    seconds: float | None = 1.0


@dataclass(frozen=True)
class Benchmark:
    """A script, its arguments, and what it measures.

    It is NAME.py here, or REST.py in a folder named after the first word of its name. `quick` says
    how it is run in small; None: it is not.
    """

    name: str
    quick: tuple[str, ...] | None
    measures: tuple[Measure, ...]


BENCHMARKS = (
    Benchmark(
        "startup",
        ("--best-of", "3"),
        (
            Measure("wall_s", "budget_wall_s", "s, --help"),
            Measure("cpu_s", "budget_cpu_s", "CPU s, one job"),
            Measure("starts", "budget_starts", "starts of Python", seconds=None),
        ),
    ),
    Benchmark(
        "counts",
        ("--generated", "200"),
        (
            Measure("calls_per_fact", "budget_calls_per_fact", "Python calls a fact", seconds=None),
            Measure("bytes_per_job", "budget_bytes_per_job", "bytes a job of a log", seconds=None),
        ),
    ),
    Benchmark(
        "rounds",
        ("--queued", "200", "--servers", "10", "--rounds", "120"),
        (Measure("worst_cpu_s", "budget_worst_cpu_s", "CPU s, worst round"),),
    ),
    Benchmark("philly", ("--best-of", "1"), (Measure("cpu_s", "budget_cpu_s", "CPU s"),)),
    Benchmark(
        "tiresias",
        ("--best-of", "1", "--sizes", "500,1000"),
        (
            Measure("process_cpu_s", "budget_process_cpu_s", "CPU s, whole process"),
            Measure("cpu_s", "budget_cpu_s", "CPU s"),
            Measure("growth", "budget_growth", "× a job", seconds=None),
        ),
    ),
    Benchmark(
        "synergy",
        ("--best-of", "1", "--runs", "fifo-tune-static"),
        (Measure("cpu_s", "budget_cpu_s", "CPU s"),),
    ),
    Benchmark(
        "sizing_trace",
        ("--best-of", "1", "--rows", "3000"),
        (Measure("ratio", "budget_ratio", "× without", seconds=None),),
    ),
    Benchmark(
        "sizing_rounds",
        ("--small", "--rounds", "10"),
        (Measure("worst_cpu_s", "budget_worst_cpu_s", "CPU s, worst round"),),
    ),
    Benchmark(
        "slicing",
        ("--servers", "3", "--best-of", "1"),
        (Measure("cpu_s", "budget_cpu_s", "CPU s, 24 h of turns"),),
    ),
    Benchmark(
        "gavel_solve",
        ("--small", "--best-of", "1"),
        (Measure("wall_s", "budget_wall_s", "s"),),
    ),
    Benchmark(
        "gavel_runs",
        ("--small", "--best-of", "1"),
        (
            Measure("wall_s", "budget_wall_s", "s, whole process"),
            Measure("ratio", "budget_ratio", "× gavel_peer", seconds=None),
        ),
    ),
    Benchmark(
        "million",
        ("--jobs", "40000", "--small", "20000"),
        (
            Measure("cpu_s", "budget_cpu_s", "CPU s"),
            Measure("peak_gib", "budget_peak_gib", "GiB", seconds=None),
            Measure(
                "gpu_utilisation",
                "budget_gpu_utilisation",
                "of the GPUs' time",
                is_rate=True,
                seconds=None,
            ),
            Measure("growth", "budget_growth", "× a job", seconds=None),
        ),
    ),
    Benchmark(
        "replay",
        ("--jobs", "5000", "--best-of", "1"),
        (
            Measure("events_per_s", "budget_events_per_s", "events/s", is_rate=True),
            Measure("verify_ratio", "budget_verify_ratio", "× the simulation", seconds=None),
        ),
    ),
    Benchmark(
        "gangs_approvals",
        ("--servers", "500", "--approvals", "1000", "--best-of", "1"),
        (Measure("approvals_per_s", "budget_approvals_per_s", "gangs/s", is_rate=True),),
    ),
    Benchmark(
        "log_verify",
        ("--events", "40000"),
        (Measure("verify_events_per_s", "budget_verify_events_per_s", "events/s", is_rate=True),),
    ),
    Benchmark(
        "why",
        ("--jobs", "2000", "--asked", "2", "--best-of", "1"),
        (Measure("cpu_s", "budget_cpu_s", "CPU s beyond --help"),),
    ),
    Benchmark(
        "live_fork",
        ("--jobs", "300", "--best-of", "1"),
        (Measure("cpu_s", "budget_cpu_s", "CPU s, 10,000 jobs"),),
    ),
    Benchmark(
        "analysis_runs",
        ("--jobs", "2000", "--best-of", "1"),
        (
            Measure("diff_cpu_s", "budget_diff_cpu_s", "CPU s, diff"),
            Measure("report_cpu_s", "budget_report_cpu_s", "CPU s, report"),
            Measure("report_mb", "budget_report_mb", "MB of a report", seconds=None),
            Measure("perfetto_cpu_s", "budget_perfetto_cpu_s", "CPU s, Perfetto"),
        ),
    ),
    Benchmark(
        "analysis_forecasts",
        (
            *("--jobs", "100", "--moments", "3", "--seeds", "1", "--loads", "1.6"),
            *("--policies", "fifo_easy", "--least", "1"),
        ),
        tuple(
            Measure(
                f"{what}_p90_percent",
                f"budget_{bound}_percent",
                f"% of {what} within P90, {bound}",
                seconds=None,
                is_rate=bound == "least",
            )
            for what in ("starts", "ends")
            for bound in ("least", "most")
        ),
    ),
    Benchmark("live_append", ("--seconds", "2"), (Measure("p99_s", "budget_p99_s", "s, p99"),)),
    Benchmark(
        "live_short_jobs",
        ("--jobs", "40", "--gpus", "8", "--quiet", "4"),
        (
            Measure("per_s", "budget_per_s", "short jobs a second", is_rate=True),
            Measure("uss_mb", "budget_uss_mb", "MB of a supervisor", seconds=None),
        ),
    ),
    Benchmark(
        "live_turns",
        ("--seconds", "6"),
        (
            Measure(
                "switch_p95_ms", "budget_switch_p95_ms", "ms, p95, GPUs change hands", seconds=1e-3
            ),
        ),
    ),
    Benchmark(
        "live_jobs",
        ("--jobs", "6", "--seconds", "2", "--best-of", "2"),
        (
            Measure("launch_s", "budget_launch_s", "s to user code"),
            Measure("release_s", "budget_release_s", "s to free GPUs"),
            Measure("idle_percent", "budget_idle_percent", "% of a core, 50 jobs", seconds=None),
        ),
    ),
    Benchmark(
        "live_ssh",
        ("--hosts", "2", "--jobs", "4", "--seconds", "2", "--best-of", "2"),
        (
            Measure("launch_s", "budget_launch_s", "s to user code"),
            Measure(
                "idle_percent",
                "budget_idle_percent",
                "% of a core, 20 hosts, 200 jobs",
                seconds=None,
            ),
            Measure(
                "noticed_keepalives",
                "budget_noticed_keepalives",
                "keepalives to notice",
                seconds=None,
            ),
            Measure("reconnect_s", "budget_reconnect_s", "s to be back"),
        ),
    ),
    Benchmark(
        "live_slurm",
        ("--best-of", "1", "--at-once", "8", "--running", "10", "--seconds", "1"),
        (
            Measure("above_sbatch_s", "budget_above_sbatch_s", "s to user code above sbatch"),
            Measure("known_s", "budget_known_s", "s until Slurm has 500"),
            Measure(
                "watch_percent",
                "budget_watch_percent",
                "% of a core, 1,000 that run",
                seconds=None,
            ),
        ),
    ),
    Benchmark(
        "live_long_queue",
        ("--queued", "500", "--ended", "200", "--policies", "las"),
        (
            Measure("round_s", "budget_round_s", "s a round"),
            Measure("rss_mib", "budget_rss_mib", "MiB", seconds=None),
            Measure("restart_s", "budget_restart_s", "s to restart"),
        ),
    ),
    Benchmark(
        "live_submissions",
        ("--jobs", "20", "--tasks", "100", "--best-of", "1"),
        (
            Measure("one_by_one_per_s", "budget_one_by_one_per_s", "a second", is_rate=True),
            Measure("batch_per_s", "budget_batch_per_s", "a second, an array", is_rate=True),
        ),
    ),
    Benchmark(
        "live_api",
        ("--queued", "300", "--best-of", "1"),
        (
            Measure("queue_cpu_s", "budget_queue_cpu_s", "CPU s, `queue` of 5,000"),
            Measure("queue_s", "budget_queue_s", "s, `queue` of 10,000"),
            Measure("queue_json_s", "budget_queue_s", "s, `queue --json`"),
            Measure("screen_s", "budget_screen_s", "s, first page and counts"),
            Measure("rss_mib", "budget_rss_mib", "MiB", seconds=None),
        ),
    ),
    Benchmark(
        "live_dry_run",
        ("--queued", "300", "--best-of", "3", "--policies", "las"),
        (Measure("answer_s", "budget_answer_s", "s, would it start, of 10,000"),),
    ),
    Benchmark(
        "live_year",
        ("--minutes", "400"),
        (
            Measure("year_gb", "budget_year_gb", "GB a year", seconds=None),
            Measure("restart_s", "budget_restart_s", "s to restart"),
        ),
    ),
    Benchmark("demo", None, (Measure("cpu_s", "budget_cpu_s", "CPU s, fresh clone"),)),
    Benchmark(
        "sdk_step",
        ("--steps", "2000", "--best-of", "2"),
        (
            Measure("step_us", "budget_step_us", "µs a step", seconds=1e-6),
            Measure("rank_us", "budget_step_us", "µs a step, one of four ranks", seconds=1e-6),
        ),
    ),
    Benchmark(
        "sdk_save",
        ("--megabytes", "20", "--best-of", "1"),
        (
            Measure("suspend_ratio", "budget_suspend_ratio", "× writing alone", seconds=None),
            Measure("prove_ratio", "budget_prove_ratio", "of writing, to prove", seconds=None),
            Measure("check_ratio", "budget_prove_ratio", "of writing, checksums", seconds=None),
        ),
    ),
)


def main() -> None:
    """Run the benchmarks, print the table, and exit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(each.name for each in BENCHMARKS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true", help="print their names, and end")
    options = parser.parse_args()
    if options.list:
        print("\n".join(each.name for each in BENCHMARKS))
        return
    wanted = options.only.split(",")
    failed, documents = False, []
    table = sys.stderr if options.json else sys.stdout
    print(row("benchmark", "measured", "budget", "in loops", "loop s"), file=table, flush=True)
    for benchmark in BENCHMARKS:
        if benchmark.name not in wanted or (options.quick and benchmark.quick is None):
            continue
        unit_s = loop_s(1 if options.quick else 3)
        found = run(benchmark, quick=options.quick)
        failed = failed or found is None
        for document in found or []:
            documents.append(document | {"loop_cpu_s": round(unit_s, 3)})
            for line in lines(benchmark, document, unit_s):
                print(line, file=table, flush=True)
    if options.json:
        print(json.dumps(documents, indent=2))
    sys.exit(1 if failed else 0)


def run(benchmark: Benchmark, *, quick: bool) -> list[dict[str, Any]] | None:
    """Run a benchmark in a process of its own; None if it failed."""
    module = f"benchmarks.{benchmark.name}"
    if find_spec(module) is None:
        module = f"benchmarks.{benchmark.name.replace('_', '.', 1)}"
    done = subprocess.run(
        [sys.executable, "-m", module, *((quick and benchmark.quick) or ())],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        why = done.stderr.strip().splitlines()[-1:] or ["no message"]
        print(f"{benchmark.name:28} failed: {why[0]}", file=sys.stderr)
        return None
    return [json.loads(line) for line in done.stdout.splitlines()]


def lines(benchmark: Benchmark, document: dict[str, Any], unit_s: float) -> list[str]:
    """Return a line of the table for each number that has a budget."""
    name = f"{benchmark.name} {document.get('policy', '')}".strip()
    return [
        row(
            name,
            f"{document[measure.key]:,}",
            f"{document[measure.budget]:,}",
            in_loops(document[measure.key], measure, unit_s),
            f"{unit_s:.2f}",
        )
        + f" {measure.unit}"
        + ("" if is_within(document, measure) else "   MISSED")
        for measure in benchmark.measures
        if document.get(measure.budget) is not None and measure.key in document
    ]


def row(name: str, measured: str, budget: str, loops: str, loop: str) -> str:
    """Lay the columns of a line out."""
    return f"{name:30} {measured:>12} {budget:>12} {loops:>10} {loop:>7}"


def in_loops(found: float, measure: Measure, unit_s: float) -> str:
    """Return a time as so many turns of the loop, or a rate as so many in one turn."""
    if measure.seconds is None:
        return "-"
    loops = found * unit_s if measure.is_rate else found * measure.seconds / unit_s
    return f"{loops:,.0f}" if loops >= 100 else f"{loops:.3g}"


def is_within(document: dict[str, Any], measure: Measure) -> bool:
    """Say whether a number keeps its budget."""
    found, budget = document[measure.key], document[measure.budget]
    return bool(found >= budget if measure.is_rate else found <= budget)


if __name__ == "__main__":
    main()
