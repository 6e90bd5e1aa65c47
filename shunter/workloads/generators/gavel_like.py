"""`gavel-like`: jobs as the generator of the Gavel simulator draws them, draw by draw.

Narayanan et al., OSDI 2020, section 7.1, in the form of the public code (commit c4fa400):

- gangs of 1, 2, 4 and 8 GPUs: 70, 10, 15 and 5 % of the jobs;
- durations of 10^x minutes on the base type, x uniform in [1.5, 3) for 80 % of the jobs and in
  [3, 4) for the others, whatever the gang;
- models: the 26 of the throughput table, equally, of those that can be distributed so far;
- weights: 5 for a fifth of the jobs, if asked for; deadlines: 1.2, 2 or 10 times the duration after
  the submission, a third of the jobs each, if asked for;
- arrivals: a Poisson process whose first job comes at time zero.

The streams are the public ones: CPython's generator, seeded with seed + 2 for jobs, + 3 for gaps
and + 6 for deadlines. With Gavel's own throughput file equal seeds therefore give equal jobs, but
for gaps in whole milliseconds. Gangs above `gpus_max` become as wide as it allows, after the draw:
with 1 these are the public traces of single-GPU jobs.
"""

from collections.abc import Iterator
from random import Random
from typing import Final

from shunter.core.speeds.speed_model import JobKind, ThroughputTable
from shunter.errors import ConfigError
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import JobSpec
from shunter.workloads.generators.draws import (
    Draw,
    EndShares,
    drawn_duration_s,
    drawn_gang,
    end_of,
    gpu_s_mean,
    stream,
    widest_gang,
)
from shunter.workloads.trace import TraceJob

_BATCH_SIZES: Final = {
    "ResNet-18": (16, 32, 64, 128, 256),
    "ResNet-50": (16, 32, 64, 128),
    "Transformer": (16, 32, 64, 128, 256),
    "LM": (5, 10, 20, 40, 80),
    "Recommendation": (512, 1024, 2048, 4096, 8192),
}
MODELS: Final = (
    *((f"{model} (batch size {n})", n) for model, sizes in _BATCH_SIZES.items() for n in sizes),
    ("A3C", None),
    ("CycleGAN", None),
)
"""Models as the table names them, with their batch size, in the order of the public code."""

_HEAVY: Final = (0.2, 5.0)
_SLOS: Final = ((0.33, 1.2), (0.67, 2.0), (1.0, 10.0))


def arrival_draw(seed: int) -> Draw:
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
        missing = [model for model, _ in MODELS if JobKind(model, 1) not in self._rates]
        if missing:
            raise ConfigError(
                f"{table.name}: no throughput above 0 on {table.base_type!r} for {missing[0]!r} on "
                f"1 GPU; gavel-like draws from {len(MODELS)} models and needs them all, so name "
                "builtin:gavel or a table that has them as workload.throughputs"
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
            model, batch_size = random.choice(MODELS)
            if (kind := JobKind(model, gpus)) in self._rates:
                return kind, batch_size, duration_s

    def _deadline_us(self, draw: Draw, submit_us: int, duration_us: int) -> int | None:
        if not self._deadlines:
            return None
        slo_draw = draw()
        slo = next(slo for top, slo in _SLOS if slo_draw < top)
        return submit_us + round(slo * duration_us)
