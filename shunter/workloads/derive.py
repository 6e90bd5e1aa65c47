"""Derive the tables of `data/` from the files that were published.

    python -m shunter.workloads.derive philly philly.csv philly.json
    python -m shunter.workloads.derive tiresias yarn-gput1000.csv tiresias.json
    python -m shunter.workloads.derive gavel simulation_throughputs.json gavel.json

Each table names the module that derived it at first: its bytes are in the digests of traces, and
never change.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Final

from shunter.core.speeds import ThroughputTable
from shunter.errors import TraceError, UsageError
from shunter.events import GpuType
from shunter.workloads.job_statistics import PROBABILITIES, quantile
from shunter.workloads.loading import load_trace
from shunter.workloads.throughputs import compact_throughputs, load_throughputs
from shunter.workloads.trace import Trace

SIZE_CLASSES: Final = (1, 2, 4, 8, 16, 128)
"""Upper bounds: the 83 jobs above 16 GPUs are too few for classes of their own."""

GPU_S_MAX: Final = 400_000
"""GPU-seconds of the longest sample of Tiresias that is kept."""

GPU_TYPES: Final = (GpuType("k80"), GpuType("p100"), GpuType("v100"))
"""The GPU types of Gavel on which a simulation can run."""


def main(arguments: Sequence[str]) -> None:
    """Write a table: its name, the file it is derived from, the file to write."""
    kind, *paths = arguments or ("",)
    source, target = _PATHS.get(kind, ("SOURCE", "TARGET"))
    if kind not in _PATHS or len(paths) != 2:
        kinds = kind if kind in _PATHS else " | ".join(_PATHS)
        raise UsageError(f"derive {kinds} takes two paths: {source} {target}")
    Path(paths[1]).write_text(_TEXTS[kind](paths[0]), encoding="utf-8")


def philly_table(trace: Trace) -> dict[str, object]:
    """Return the statistics behind `philly-like`, from the whole Philly trace.

    Only statistics leave the trace, no job of it: how many jobs have which gang size; quantiles of
    their durations by size class (linear interpolation between order statistics, whole seconds);
    the queues' shares of the jobs; and the median number of submissions in each hour of the day.
    Medians over the days, because single users submit thousands of jobs in one hour.
    """
    durations: dict[int, list[int]] = defaultdict(list)
    for job in trace.jobs:
        size_class = next(bound for bound in SIZE_CLASSES if job.spec.gpus <= bound)
        durations[size_class].append(job.duration_us // 1_000_000)
    gangs = Counter(job.spec.gpus for job in trace.jobs)
    queues = Counter(job.spec.queue for job in trace.jobs)
    return {
        "source": _PHILLY_SOURCE,
        "derived_by": "shunter/workloads/generators/derive_philly.py",
        "probabilities": PROBABILITIES,
        "duration_s": {str(bound): _whole_quantiles(durations[bound]) for bound in SIZE_CLASSES},
        "gang_jobs": {str(gpus): gangs[gpus] for gpus in sorted(gangs)},
        "queue_jobs": sorted(queues.values(), reverse=True),
        **_rhythm(trace),
    }


def tiresias_table(samples_gpu_s: Sequence[int]) -> dict[str, object]:
    """Return the statistics behind `tiresias-like`, from all samples in GPU-seconds.

    Only quantiles leave the file. What is above GPU_S_MAX, a twentieth of the samples, is left out:
    those jobs have nine tenths of all GPU time, so that a handful of them would decide the load of
    a trace of a thousand jobs.
    """
    ordered = sorted(sample for sample in samples_gpu_s if sample <= GPU_S_MAX)
    return {
        "source": _TIRESIAS_SOURCE,
        "derived_by": "shunter/workloads/generators/derive_tiresias.py",
        "samples": len(ordered),
        "probabilities": PROBABILITIES,
        "gpu_s": [round(quantile(ordered, probability)) for probability in PROBABILITIES],
    }


def gavel_table(table: ThroughputTable) -> dict[str, object]:
    """Return the built-in table of throughputs, from the whole one of Gavel.

    Kept are the three GPU types on which a simulation can run, with three significant digits: what
    the measurements are worth. `data/README.md` names source and licence.
    """
    narrowed = table.narrowed(GPU_TYPES)
    rounded = replace(
        narrowed,
        alone={
            gpu_type: {kind: _rounded(rate) for kind, rate in rates.items()}
            for gpu_type, rates in narrowed.alone.items()
        },
        paired={
            gpu_type: {pair: (_rounded(one), _rounded(other)) for pair, (one, other) in at.items()}
            for gpu_type, at in narrowed.paired.items()
        },
    )
    remarks = {
        "source": _GAVEL_SOURCE,
        "licence": "MIT",
        "derived_by": "shunter/workloads/throughputs/derive.py",
    }
    return {**remarks, **compact_throughputs(rounded)}


_PHILLY_SOURCE: Final = (
    "Microsoft philly-traces, CC-BY-4.0 (Jeon et al., USENIX ATC 2019), as filtered into the job "
    "list of the Sia artifact: 82,247 jobs, 2017-09-04 to 2017-12-22"
)

_TIRESIAS_SOURCE: Final = (
    "yarn-gput1000.csv of the Tiresias simulator (SymbioticLab, commit 959f9b0), Apache License "
    "2.0 (Gu et al., NSDI 2019): 1,001 GPU times of jobs"
)

_GAVEL_SOURCE: Final = (
    "simulation_throughputs.json of the Gavel simulator (stanford-futuredata, commit c4fa400), "
    "Narayanan et al., OSDI 2020; three significant digits"
)


def _whole_quantiles(seconds: list[int]) -> list[int]:
    seconds.sort()
    return [round(quantile(seconds, probability)) for probability in PROBABILITIES]


def _rhythm(trace: Trace) -> dict[str, object]:
    """Return median submissions by hour of the day (UTC), and weekend over weekday."""
    assert trace.origin is not None
    origin = datetime.fromisoformat(trace.origin)
    days: dict[str, list[int]] = defaultdict(lambda: [0] * 24)
    weekend: dict[str, bool] = {}
    for job in trace.jobs:
        moment = origin + timedelta(microseconds=job.submit_us)
        days[moment.date().isoformat()][moment.hour] += 1
        weekend[moment.date().isoformat()] = moment.weekday() >= 5
    on_weekends = median(sum(hours) for day, hours in days.items() if weekend[day])
    on_weekdays = median(sum(hours) for day, hours in days.items() if not weekend[day])
    return {
        "hour_jobs": [median(hours[hour] for hours in days.values()) for hour in range(24)],
        "weekend_weight": round(on_weekends / on_weekdays, 3),
    }


def _philly_text(source: str) -> str:
    return _lines(philly_table(load_trace(source, "philly-csv")))


def _tiresias_text(source: str) -> str:
    """Return the table of a file with a header and GPU-seconds, one a line."""
    _, *lines = Path(source).read_text(encoding="utf-8").split()
    if not lines or not all(line.isdigit() for line in lines):
        raise TraceError(f"{source}: expected a header and whole GPU-seconds, one a line")
    return _lines(tiresias_table([int(line) for line in lines]))


def _lines(table: dict[str, object]) -> str:
    shown = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items())
    return "{\n" + ",\n".join(shown) + "\n}\n"


def _gavel_text(source: str) -> str:
    """Return JSON with one kind a line, and rates in lines of a hundred characters."""
    read = load_throughputs(source, lambda path: Path(path).read_text(encoding="utf-8"))
    parts = []
    for key, value in gavel_table(read.table).items():
        match value:
            case dict():
                columns = (f"{json.dumps(name)}:\n{_filled(at)}" for name, at in value.items())
                text = "{\n" + ",\n".join(columns) + "\n}"
            case list():
                text = "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"
            case _:
                text = json.dumps(value)
        parts.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _filled(numbers: list[object]) -> str:
    return fill(json.dumps(numbers), 100, break_long_words=False, break_on_hyphens=False)


def _rounded(rate: float) -> float:
    return float(f"{rate:.3g}")


_PATHS: Final = {
    "philly": ("philly.csv", "philly.json"),
    "tiresias": ("yarn-gput1000.csv", "tiresias.json"),
    "gavel": ("simulation_throughputs.json", "gavel.json"),
}
_TEXTS: Final[Mapping[str, Callable[[str], str]]] = {
    "philly": _philly_text,
    "tiresias": _tiresias_text,
    "gavel": _gavel_text,
}

if __name__ == "__main__":
    main(sys.argv[1:])
