"""Derive the statistics behind `philly-like` from the public Philly job list.

    python -m shunter.workloads.generators.derive_philly philly.csv philly.json

Only statistics leave the trace, no job of it: how many jobs have which gang size; quantiles of
their durations by size class (linear interpolation between order statistics, whole seconds); the
queues' shares of the jobs; and the median number of submissions in each hour of the day. Medians
over the days, because single users submit thousands of jobs in one hour.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

from shunter.errors import UsageError
from shunter.workloads.generators.draws import PROBABILITIES, quantile
from shunter.workloads.loading import load_trace
from shunter.workloads.trace import Trace

SIZE_CLASSES: Final = (1, 2, 4, 8, 16, 128)
"""Upper bounds: the 83 jobs above 16 GPUs are too few for classes of their own."""

SOURCE: Final = (
    "Microsoft philly-traces, CC-BY-4.0 (Jeon et al., USENIX ATC 2019), as filtered into the job "
    "list of the Sia artifact: 82,247 jobs, 2017-09-04 to 2017-12-22"
)


def derive_table(trace: Trace) -> dict[str, object]:
    """Return the table as it is shipped, from the whole Philly trace."""
    durations: dict[int, list[int]] = defaultdict(list)
    for job in trace.jobs:
        size_class = next(bound for bound in SIZE_CLASSES if job.spec.gpus <= bound)
        durations[size_class].append(job.duration_us // 1_000_000)
    gangs = Counter(job.spec.gpus for job in trace.jobs)
    queues = Counter(job.spec.queue for job in trace.jobs)
    return {
        "source": SOURCE,
        "derived_by": "shunter/workloads/generators/derive_philly.py",
        "probabilities": PROBABILITIES,
        "duration_s": {str(bound): _quantiles(durations[bound]) for bound in SIZE_CLASSES},
        "gang_jobs": {str(gpus): gangs[gpus] for gpus in sorted(gangs)},
        "queue_jobs": sorted(queues.values(), reverse=True),
        **_rhythm(trace),
    }


def main(arguments: Sequence[str]) -> None:
    """Read the trace named first, write the table to the file named second."""
    if len(arguments) != 2:
        raise UsageError("derive_philly takes two paths: philly.csv philly.json")
    table = derive_table(load_trace(arguments[0], "philly-csv"))
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items())
    Path(arguments[1]).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _quantiles(seconds: list[int]) -> list[int]:
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


if __name__ == "__main__":
    main(sys.argv[1:])
