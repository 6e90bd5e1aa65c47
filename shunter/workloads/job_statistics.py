"""What generated jobs are drawn from: streams of random numbers, and four kinds of jobs.

Each quantity of a job has a stream of its own, so that drawing one more of one kind never shifts
another, and a longer trace begins like a shorter one.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log
from pathlib import Path
from random import Random
from typing import Any, Final

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.errors import ConfigError
from shunter.events import JobId, JobSpec, QueueName, UserName
from shunter.workloads.trace import JobEnd, TraceJob


@dataclass(frozen=True)
class EndShares:
    """The shares of jobs that fail, or are cancelled, after having run."""

    failed: float = 0.0
    cancelled: float = 0.0


def stream(seed: int, name: str) -> Callable[[], float]:
    """Return uniform draws for one quantity, by `random()`: stable over Pythons."""
    return Random(f"{seed}/{name}").random


def cumulative(weights: Sequence[float]) -> list[float]:
    """Return running shares; the last is exactly 1, so a draw finds its place."""
    total = sum(weights)
    return [*(sum_so_far / total for sum_so_far in accumulate(weights[:-1])), 1.0]


def end_of(draw: float, ends: EndShares) -> JobEnd:
    """Return how a job ends, by a uniform draw."""
    if draw < ends.failed:
        return JobEnd.failed
    return JobEnd.cancelled if draw < ends.failed + ends.cancelled else JobEnd.finished


# A distribution by quantiles, with a heavy tail between them.

PROBABILITIES: Final = (
    *(0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85),
    *(0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 1),
)
"""Denser at the top, where most GPU time is."""


class Quantiles:
    """A positive quantity whose logarithm is linear between its known quantiles.

    Straight lines between the values themselves would put far too much into the tail: in the
    Philly trace the last thousandth of the jobs spans a factor of four.
    """

    def __init__(self, probabilities: Sequence[float], values: Sequence[float]) -> None:
        """Take ascending probabilities from 0 to 1 and as many ascending values above 0."""
        assert len(probabilities) == len(values)
        assert probabilities[0] == 0
        assert probabilities[-1] == 1
        self._probabilities = tuple(probabilities)
        self._values = tuple(values)
        self._logs = tuple(log(value) for value in values)
        self._slopes = tuple(
            (self._logs[i + 1] - self._logs[i]) / (probabilities[i + 1] - probabilities[i])
            for i in range(len(values) - 1)
        )

    def at(self, probability: float) -> float:
        """Return the quantile of a probability in [0, 1)."""
        i = bisect_right(self._probabilities, probability) - 1
        return exp(self._logs[i] + (probability - self._probabilities[i]) * self._slopes[i])

    def mean(self) -> float:
        """Return the mean: between two quantiles a < b it is (b - a) / ln(b / a)."""
        total = 0.0
        for i, slope in enumerate(self._slopes):
            width = self._probabilities[i + 1] - self._probabilities[i]
            low, high = self._values[i], self._values[i + 1]
            total += width * ((high - low) / (slope * width) if slope else low)
        return total


def quantile(ordered: Sequence[float], probability: float) -> float:
    """Return a quantile of an ascending sample, linear between the two nearest."""
    place = probability * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


# Arrivals: a Poisson process. Instants are whole milliseconds, so that a last bit of `log` that
# differs between machines cannot differ in a trace.

_HOUR_MS = 3_600_000
_WEEK_MS = 168 * _HOUR_MS


@dataclass(frozen=True)
class Rhythm:
    """Relative rates of the 24 hours of a day, and of weekends over other days."""

    hour_weights: Sequence[float]
    weekend: float


def poisson_arrivals_us(draw: Callable[[], float], gap_s_mean: float) -> Iterator[int]:
    """Yield instants with independent, exponentially distributed gaps between them."""
    for at_ms in _poisson_ms(draw, gap_s_mean):
        yield at_ms * 1000


def diurnal_arrivals_us(
    draw: Callable[[], float], gap_s_mean: float, hour_weights: Sequence[float], weekend: float
) -> Iterator[int]:
    """Yield instants whose rate follows the hours of the day and the weekends.

    Time zero is a Monday, 00:00. The same draws as of a Poisson process are stretched so that
    each hour holds its share (time rescaling), and a week holds as many jobs as without a rhythm.

    Args:
        draw: uniform numbers in [0, 1).
        gap_s_mean: seconds between jobs, averaged over the week.
        hour_weights: 24 relative rates.
        weekend: rate of Saturday and Sunday relative to the other days.
    """
    weights = [hour_weights[hour % 24] * (weekend if hour >= 120 else 1.0) for hour in range(168)]
    scale = len(weights) / sum(weights)
    rates = [weight * scale for weight in weights]
    starts = [0.0]
    for rate in rates[:-1]:
        starts.append(starts[-1] + rate * _HOUR_MS)
    for area_ms in _poisson_ms(draw, gap_s_mean):
        week, rest_ms = divmod(area_ms, _WEEK_MS)
        hour = bisect_right(starts, rest_ms) - 1
        within_ms = round((rest_ms - starts[hour]) / rates[hour])
        yield (week * _WEEK_MS + hour * _HOUR_MS + within_ms) * 1000


def _poisson_ms(draw: Callable[[], float], gap_s_mean: float) -> Iterator[int]:
    gap_ms_mean = gap_s_mean * 1000
    at_ms = 0
    while True:
        at_ms += round(-log(1.0 - draw()) * gap_ms_mean)
        yield at_ms


# Gangs and durations as the generators of Gavel and Synergy draw them.
#
# - 1, 2, 4 and 8 GPUs: 70, 10, 15 and 5 % of the jobs;
# - 10^x minutes, x uniform in [1.5, 3) for 80 % of the jobs and in [3, 4) for the others; Synergy's
#   deployments: [1.5, 2.5) and [2.5, 2.7).
#
# Sources: Narayanan et al., OSDI 2020, section 7.1 (public code, commit c4fa400); Mohan et al.,
# OSDI 2022, section 5.1 (public code, commit 1bb2bed).

GANGS: Final = ((1, 0.7), (2, 0.8), (4, 0.95), (8, 1.0))
"""Gang sizes, each with the draw below which it is taken."""

_LONG_FROM: Final = 0.8

Durations = tuple[tuple[float, float], tuple[float, float]]
"""The ranges of x for short jobs and long ones."""

LONG: Final[Durations] = ((1.5, 3.0), (3.0, 4.0))
SHORT: Final[Durations] = ((1.5, 2.5), (2.5, 2.7))

Draw = Callable[[], float]
"""Returns a uniform number in [0, 1)."""


def widest_gang(gpus_max: int) -> int:
    """Return the widest gang of at most so many GPUs."""
    return max(gpus for gpus, _ in GANGS if gpus <= gpus_max)


def drawn_gang(draw: Draw, widest: int) -> int:
    """Return the GPUs of a job, by one draw; wider gangs become the widest."""
    drawn = draw()
    return min(next(size for size, top in GANGS if drawn < top), widest)


def drawn_duration_s(draw: Draw, durations: Durations = LONG) -> float:
    """Return the seconds of a job, by two draws."""
    low, high = durations[draw() >= _LONG_FROM]
    return 60.0 * 10 ** (low + (high - low) * draw())


def gpu_s_mean(widest: int, durations: Durations = LONG) -> float:
    """Return the mean GPU-seconds of a job: gangs and durations are independent."""
    gpus = sum(
        (top - below) * min(size, widest)
        for (size, top), below in zip(GANGS, (0.0, *(top for _, top in GANGS)), strict=False)
    )
    short, long = (60 * (10**high - 10**low) / ((high - low) * log(10)) for low, high in durations)
    return gpus * (_LONG_FROM * short + (1 - _LONG_FROM) * long)


# `philly-like`: sizes, durations and rhythm of the Philly trace. Users, models and limits are made
# up, as the trace has none:
#
# - users: 300, the r-th busiest of a queue submits in proportion to 1/r;
# - models: the multi-GPU ones of Gavel's throughput table (Narayanan et al., OSDI 2020), equally;
# - limits: durations are a uniform 10 to 90 % of the limit (the f-model of Mu'alem and Feitelson,
#   IEEE TPDS 2001), rounded up to what people type.

USERS: Final = 300
PHILLY_MODELS: Final = (("ResNet-18", 64), ("ResNet-50", 64), ("Transformer", 64), ("LM", 40))
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
        """Parse the table that `derive.py` made."""
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


def philly_table_bytes() -> bytes:
    """Return the shipped table's bytes, part of every generated trace's digest."""
    return (Path(__file__).parent / "data" / "philly.json").read_bytes()


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
        model = int(self._draw_model() * len(PHILLY_MODELS))
        use = LIMIT_USE_MIN + (LIMIT_USE_MAX - LIMIT_USE_MIN) * self._draw_limit()
        limit = min(bisect_left(LIMITS_S, duration_s / use), len(LIMITS_S) - 1)
        key = (gpus, queue, user, model, limit)
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = JobSpec(
                gpus=gpus,
                user=UserName(f"vc{queue + 1:02}-u{user + 1:03}"),
                queue=QueueName(f"vc{queue + 1:02}"),
                model=PHILLY_MODELS[model][0],
                batch_size=PHILLY_MODELS[model][1],
                time_limit_us=int(LIMITS_S[limit] * 1_000_000),
            )
        return spec


# `tiresias-like`: GPU times from quantiles of the simulator's samples, cut at 400,000 GPU-seconds
# (derive.py); half the jobs have 1 GPU, a sixth each 2, 4 and 8; nine models, equally, of which
# four have one large tensor, for placement `skew`.

TIRESIAS_GANGS: Final = ((1, 3), (2, 1), (4, 1), (8, 1))
"""Gang sizes with their weights."""

TIRESIAS_MODELS: Final = (
    *("vgg19", "vgg16", "vgg11", "alexnet"),
    *("resnet152", "resnet101", "resnet50", "inception4", "inception3"),
)


class TiresiasTable:
    """The derived statistics, with the gangs of at most `gpus_max` GPUs."""

    def __init__(self, content: bytes, gpus_max: int) -> None:
        """Parse the table that `derive.py` made."""
        table = json.loads(content)
        self.gpu_s = Quantiles(table["probabilities"], table["gpu_s"])
        gangs = [(gpus, weight) for gpus, weight in TIRESIAS_GANGS if gpus <= gpus_max]
        self.gangs = [gpus for gpus, _ in gangs]
        self.gang_shares = cumulative([weight for _, weight in gangs])

    def gpu_s_mean(self) -> float:
        """Return the mean GPU-seconds of a job."""
        return self.gpu_s.mean()

    def rhythm(self) -> None:
        """Return nothing: the samples say nothing of days and weeks."""

    def jobs(
        self, count: int, arrivals_us: Iterator[int], seed: int, ends: EndShares
    ) -> Iterator[TraceJob]:
        """Yield jobs, as `Statistics` of the catalogue has it."""
        names = ("gang", "gpu_time", "model", "end")
        draw_gang, draw_gpu_time, draw_model, draw_end = (stream(seed, name) for name in names)
        specs = {
            (gpus, model): JobSpec(gpus=gpus, model=model)
            for gpus in self.gangs
            for model in TIRESIAS_MODELS
        }
        for number in range(count):
            gpus = self.gangs[bisect_right(self.gang_shares, draw_gang())]
            # Whole seconds, so that no machine's mathematical library shows in a trace.
            duration_s = max(1, round(self.gpu_s.at(draw_gpu_time()) / gpus))
            spec = specs[gpus, TIRESIAS_MODELS[int(draw_model() * len(TIRESIAS_MODELS))]]
            end, job_id = end_of(draw_end(), ends), JobId(str(number))
            yield TraceJob(job_id, next(arrivals_us), spec, duration_s * 1_000_000, end)


def tiresias_table_bytes() -> bytes:
    """Return the shipped table's bytes, part of every generated trace's digest."""
    return (Path(__file__).parent / "data" / "tiresias.json").read_bytes()


# `gavel-like`: draw by draw as Gavel's simulator (Narayanan et al., OSDI 2020, section 7.1; public
# code, commit c4fa400).
#
# - models: those of the 26 in the throughput table that can be distributed so far, equally;
# - weights: 5 for a fifth of the jobs; deadlines: 1.2, 2 or 10 times the duration;
# - arrivals: a Poisson process whose first job comes at time zero.
#
# CPython's generator is seeded with seed + 2 for jobs, + 3 for gaps and + 6 for deadlines, so equal
# seeds and Gavel's own throughput file give the public jobs, but for gaps in whole milliseconds.
# Gangs are cut to `gpus_max` after the draw: with 1 these are the public single-GPU traces.

_BATCH_SIZES: Final = {
    "ResNet-18": (16, 32, 64, 128, 256),
    "ResNet-50": (16, 32, 64, 128),
    "Transformer": (16, 32, 64, 128, 256),
    "LM": (5, 10, 20, 40, 80),
    "Recommendation": (512, 1024, 2048, 4096, 8192),
}
GAVEL_MODELS: Final = (
    *((f"{model} (batch size {n})", n) for model, sizes in _BATCH_SIZES.items() for n in sizes),
    ("A3C", None),
    ("CycleGAN", None),
)
"""Models as the table names them, with their batch size, in the order of the public code."""

_HEAVY: Final = (0.2, 5.0)
_SLOS: Final = ((0.33, 1.2), (0.67, 2.0), (1.0, 10.0))


def gavel_arrival_draw(seed: int) -> Draw:
    """Return the uniform draws that become gaps between arrivals."""
    return Random(seed + 3).random


class GavelTable:
    """The distributions, with gangs of at most `gpus_max` GPUs, by a table."""

    def __init__(
        self, table: ThroughputTable, gpus_max: int, *, weights: bool, deadlines: bool
    ) -> None:
        """Look the models up.

        Raises:
            ConfigError: the table lacks one of them, alone on the base type.
        """
        self._widest = widest_gang(gpus_max)
        self._weights = weights
        self._deadlines = deadlines
        rates = table.alone[table.base_type]
        self._rates = {kind: rate for kind, rate in rates.items() if rate}
        missing = [model for model, _ in GAVEL_MODELS if JobKind(model, 1) not in self._rates]
        if missing:
            raise ConfigError(
                f"{table.name}: no throughput above 0 on {table.base_type!r} for {missing[0]!r} on "
                f"1 GPU; gavel-like draws from {len(GAVEL_MODELS)} models and needs them all, so "
                "name builtin:gavel or a table that has them as workload.throughputs"
            )

    def gpu_s_mean(self) -> float:
        """Return the mean GPU-seconds of a job."""
        return gpu_s_mean(self._widest)

    def rhythm(self) -> None:
        """Return nothing: arrivals know neither days nor weeks."""

    def jobs(
        self, count: int, arrivals_us: Iterator[int], seed: int, ends: EndShares
    ) -> Iterator[TraceJob]:
        """Yield jobs, as `Statistics` of the catalogue has it."""
        random, draw_slo = Random(seed + 2), Random(seed + 6).random
        draw_end = stream(seed, "end")
        for number in range(count):
            kind, batch_size, duration_s = self._draw(random)
            weight = 1.0
            if self._weights and random.random() <= _HEAVY[0]:
                weight = _HEAVY[1]
            rate = self._rates[kind]
            # Whole steps, as traces have them; what they take is then a quotient of two numbers
            # that no machine's mathematical library made.
            steps = max(1, int(duration_s * rate))
            duration_us = max(1, round(steps / rate * 1_000_000))
            submit_us = next(arrivals_us)
            spec = JobSpec(
                gpus=kind.gpus,
                model=kind.model,
                batch_size=batch_size,
                total_steps=steps,
                weight=weight,
                deadline_us=self._deadline_us(draw_slo, submit_us, duration_us),
            )
            end, job_id = end_of(draw_end(), ends), JobId(str(number))
            yield TraceJob(job_id, submit_us, spec, duration_us, end)

    def _draw(self, random: Random) -> tuple[JobKind, int | None, float]:
        """Return kind, batch size and seconds, in the order of the public draws."""
        gpus = drawn_gang(random.random, self._widest)
        duration_s = drawn_duration_s(random.random)
        while True:
            model, batch_size = random.choice(GAVEL_MODELS)
            if (kind := JobKind(model, gpus)) in self._rates:
                return kind, batch_size, duration_s

    def _deadline_us(self, draw: Draw, submit_us: int, duration_us: int) -> int | None:
        if not self._deadlines:
            return None
        slo_draw = draw()
        slo = next(slo for top, slo in _SLOS if slo_draw < top)
        return submit_us + round(slo * duration_us)


# `synergy-like` (Mohan et al., OSDI 2022, section 5.1; public code, commit 1bb2bed): models by a
# split of image, language and speech; durations are at the GPU-proportional share. Images and `m5`
# get faster with more than their share. Steps are counted on servers with 3 CPUs for each GPU.
#
# Deviation: the public code draws other arrivals with the first scheduler of a run than with the
# rest, so there are no public jobs to be equal to. Here each quantity has a stream of its own.

SYNERGY_CLASSES: Final = ("image", "language", "speech")
SYNERGY_SPLIT: Final = (20.0, 70.0, 10.0)
"""Weights of the classes, the public code's usual ones."""

CPUS_PER_GPU: Final = "3"
"""Which servers the seconds of an iteration are of."""


class SynergyTable:
    """The distributions, with gangs of at most `gpus_max` GPUs, by published models."""

    def __init__(
        self,
        models: dict[str, Any],
        gpus_max: int,
        split: Sequence[float] = SYNERGY_SPLIT,
        *,
        are_short: bool = False,
    ) -> None:
        """Sort the models by class; `split` are weights of `SYNERGY_CLASSES`, not all 0."""
        self._widest = widest_gang(gpus_max)
        self._durations = SHORT if are_short else LONG
        self._shares = cumulative(split)
        self._names = [
            [name for name, model in models.items() if model["class"] == kind]
            for kind in SYNERGY_CLASSES
        ]
        self._iter_s = {
            name: model["on_servers"][CPUS_PER_GPU]["iter_time_s"] for name, model in models.items()
        }

    def gpu_s_mean(self) -> float:
        """Return the mean GPU-seconds of a job at the proportional share."""
        return gpu_s_mean(self._widest, self._durations)

    def rhythm(self) -> None:
        """Return nothing: arrivals know neither days nor weeks."""

    def jobs(
        self, count: int, arrivals_us: Iterator[int], seed: int, ends: EndShares
    ) -> Iterator[TraceJob]:
        """Yield jobs, as `Statistics` of the catalogue has it."""
        names = ("class", "model", "gang", "duration", "end")
        draw_class, draw_model, draw_gang, draw_duration, draw_end = (
            stream(seed, name) for name in names
        )
        for number in range(count):
            among = self._names[bisect_right(self._shares, draw_class())]
            model = among[int(draw_model() * len(among))]
            gpus, iter_s = drawn_gang(draw_gang, self._widest), self._iter_s[model]
            # Whole steps, as traces have them; what they take is then a product of two numbers
            # that no machine's mathematical library made.
            steps = max(1, int(drawn_duration_s(draw_duration, self._durations) / iter_s))
            spec = JobSpec(gpus=gpus, model=model, total_steps=steps)
            end, job_id = end_of(draw_end(), ends), JobId(str(number))
            duration_us = max(1, round(steps * iter_s * 1_000_000))
            yield TraceJob(job_id, next(arrivals_us), spec, duration_us, end)


def synergy_content(models: dict[str, Any]) -> bytes:
    """Return what jobs are drawn from, part of every generated trace's digest."""
    known = {
        name: [model["class"], model["on_servers"][CPUS_PER_GPU]["iter_time_s"]]
        for name, model in models.items()
    }
    return json.dumps(known).encode()
