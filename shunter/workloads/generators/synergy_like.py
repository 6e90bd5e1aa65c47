"""`synergy-like`: jobs shaped like those that the Synergy simulator makes up.

Mohan et al., OSDI 2022, section 5.1, in the form of the public code (commit 1bb2bed):

- models in three classes, image, language and speech, by a split such as 20, 70 and 10; within a
  class equally;
- gangs and durations as Gavel's generator draws them, whatever the model, or half an hour to eight
  hours, as in the deployments; durations are those at the GPU-proportional share;
- arrivals: a Poisson process whose first job comes at time zero.

Images and `m5` get faster with more CPUs or memory than their share, the other models do not. Steps
are counted by the published seconds of an iteration on servers with 3 CPUs for each GPU.

Deviation: the public code draws other arrivals with the first scheduler of a run than with the
rest, by the same seed, so there are no public jobs to be equal to. Here each quantity has a stream
of its own: another split changes models, and only them but for a whole number of steps.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

from shunter.events.values import JobId, JobSpec
from shunter.workloads.generators.draws import (
    LONG,
    SHORT,
    EndShares,
    cumulative,
    drawn_duration_s,
    drawn_gang,
    end_of,
    gpu_s_mean,
    stream,
    widest_gang,
)
from shunter.workloads.trace import TraceJob

CLASSES: Final = ("image", "language", "speech")
SPLIT: Final = (20.0, 70.0, 10.0)
"""Weights of the classes, the public code's usual ones."""

CPUS_PER_GPU: Final = "3"
"""Which servers the seconds of an iteration are of."""


class SynergyTable:
    """The distributions, with gangs of at most `gpus_max` GPUs, by published models."""

    def __init__(
        self,
        models: dict[str, Any],
        gpus_max: int,
        split: Sequence[float] = SPLIT,
        *,
        are_short: bool = False,
    ) -> None:
        """Sort the models by class; `split` are weights of `CLASSES`, not all 0."""
        self._widest = widest_gang(gpus_max)
        self._durations = SHORT if are_short else LONG
        self._shares = cumulative(split)
        self._names = [
            [name for name, model in models.items() if model["class"] == kind] for kind in CLASSES
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


def content_of(models: dict[str, Any]) -> bytes:
    """Return what jobs are drawn from, part of every generated trace's digest."""
    known = {
        name: [model["class"], model["on_servers"][CPUS_PER_GPU]["iter_time_s"]]
        for name, model in models.items()
    }
    return json.dumps(known).encode()
