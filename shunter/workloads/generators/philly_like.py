"""`philly-like`: jobs with the sizes, durations and rhythm of the public Philly trace.

Gang sizes are drawn by their share of the trace's jobs, durations from the quantiles of their
size class, queues by the shares of the trace's virtual clusters. The trace names no users, models
or limits; these are made up so that queues, throughput tables and backfill have something to
work on:

- users: 300, spread over the queues like the jobs, the r-th busiest of a queue submitting in
  proportion to 1/r;
- models: the multi-GPU ones of Gavel's throughput table (Narayanan et al., OSDI 2020), equally;
- limits: durations are a uniform part of what users ask for (the f-model of Mu'alem and
  Feitelson, IEEE TPDS 2001), here 10 to 90 %, rounded up to what people type.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shunter.events.values import JobId, JobSpec, QueueName, UserName
from shunter.workloads.generators.draws import (
    EndShares,
    Quantiles,
    Rhythm,
    cumulative,
    end_of,
    stream,
)
from shunter.workloads.trace import TraceJob

USERS: Final = 300
MODELS: Final = (("ResNet-18", 64), ("ResNet-50", 64), ("Transformer", 64), ("LM", 40))
LIMITS_S: Final = tuple(
    hours * 3600
    for hours in (0.25, 0.5, 1, 2, 4, 8, 12, 24, 48, 72, 120, 168, 336, 720, 1440, 2160)
)
"""Up to 90 days: the longest job of the table takes 54."""

LIMIT_USE_MIN: Final = 0.1
LIMIT_USE_MAX: Final = 0.9


class PhillyTable:
    """The derived statistics, cut to the gangs of at most `gpus_max` GPUs."""

    def __init__(self, content: bytes, gpus_max: int) -> None:
        """Parse the table that `derive_philly` wrote."""
        table = json.loads(content)
        probabilities = table["probabilities"]
        classes = {
            int(bound): Quantiles(probabilities, values)
            for bound, values in table["duration_s"].items()
        }
        jobs = {int(gpus): jobs for gpus, jobs in table["gang_jobs"].items()}
        self.gangs = [gpus for gpus in sorted(jobs) if gpus <= gpus_max]
        self.gang_shares = cumulative([jobs[gpus] for gpus in self.gangs])
        self.durations = [
            classes[next(bound for bound in sorted(classes) if gpus <= bound)]
            for gpus in self.gangs
        ]
        self.queue_jobs: list[int] = table["queue_jobs"]
        self.hour_weights: list[float] = table["hour_jobs"]
        self.weekend_weight: float = table["weekend_weight"]

    def gpu_s_mean(self) -> float:
        """Return the mean GPU-seconds of a job."""
        bounds = [0.0, *self.gang_shares]
        return sum(
            (bounds[i + 1] - bounds[i]) * gpus * self.durations[i].mean()
            for i, gpus in enumerate(self.gangs)
        )

    def rhythm(self) -> Rhythm:
        """Return how submissions follow the hours of the day and the weekends."""
        return Rhythm(self.hour_weights, self.weekend_weight)

    def jobs(
        self, count: int, arrivals_us: Iterator[int], seed: int, ends: EndShares
    ) -> Iterator[TraceJob]:
        """Yield jobs, as `Statistics` of the catalogue has it."""
        draw_gang, draw_duration, draw_end = (stream(seed, s) for s in ("gang", "duration", "end"))
        specs = _SpecSource(self, seed)
        for number in range(count):
            kind = bisect_right(self.gang_shares, draw_gang())
            # Whole seconds, as in the trace, and the same on every machine's mathematical library.
            duration_s = max(1, round(self.durations[kind].at(draw_duration())))
            spec = specs.draw(self.gangs[kind], duration_s)
            end = end_of(draw_end(), ends)
            job_id = JobId(str(number))
            yield TraceJob(job_id, next(arrivals_us), spec, duration_s * 1_000_000, end)


def table_bytes() -> bytes:
    """Return the shipped table's bytes, part of every generated trace's digest."""
    return Path(__file__).with_name("philly.json").read_bytes()


class _SpecSource:
    """Draws queue, user, model and limit, and shares equal specifications."""

    def __init__(self, table: PhillyTable, seed: int) -> None:
        self._draw_queue, self._draw_user, self._draw_model, self._draw_limit = (
            stream(seed, name) for name in ("queue", "user", "model", "limit")
        )
        self._queue_shares = cumulative(table.queue_jobs)
        total = sum(table.queue_jobs)
        self._user_shares = [
            cumulative([1 / rank for rank in range(1, max(1, round(USERS * jobs / total)) + 1)])
            for jobs in table.queue_jobs
        ]
        self._specs: dict[tuple[int, int, int, int, int], JobSpec] = {}

    def draw(self, gpus: int, duration_s: int) -> JobSpec:
        """Return the specification of a job of this size and duration."""
        queue = bisect_right(self._queue_shares, self._draw_queue())
        user = bisect_right(self._user_shares[queue], self._draw_user())
        model = int(self._draw_model() * len(MODELS))
        use = LIMIT_USE_MIN + (LIMIT_USE_MAX - LIMIT_USE_MIN) * self._draw_limit()
        limit = min(bisect_left(LIMITS_S, duration_s / use), len(LIMITS_S) - 1)
        key = (gpus, queue, user, model, limit)
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = JobSpec(
                gpus=gpus,
                user=UserName(f"vc{queue + 1:02}-u{user + 1:03}"),
                queue=QueueName(f"vc{queue + 1:02}"),
                model=MODELS[model][0],
                batch_size=MODELS[model][1],
                time_limit_us=int(LIMITS_S[limit] * 1_000_000),
            )
        return spec
