"""`tiresias-like`: jobs shaped like those of the Tiresias paper's experiments.

GPU times are drawn from quantiles of the simulator's samples, cut at 400,000 GPU-seconds
(derive_tiresias.py); a job's duration is its GPU time over its GPUs. Half the jobs have one GPU, a
sixth each 2, 4 and 8. Models are the nine of the simulator's table, equally: for four of them the
largest tensor is most of the model, so that placement `skew` tells them from the others. The jobs
name neither users nor limits, and a duration does not depend on where the job runs.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shunter.events.values import JobId, JobSpec
from shunter.workloads.generators.draws import EndShares, Quantiles, cumulative, end_of, stream
from shunter.workloads.trace import TraceJob

GANGS: Final = ((1, 3), (2, 1), (4, 1), (8, 1))
"""Gang sizes with their weights."""

MODELS: Final = (
    *("vgg19", "vgg16", "vgg11", "alexnet"),
    *("resnet152", "resnet101", "resnet50", "inception4", "inception3"),
)


class TiresiasTable:
    """The derived statistics, with the gangs of at most `gpus_max` GPUs."""

    def __init__(self, content: bytes, gpus_max: int) -> None:
        """Parse the table that `derive_tiresias` wrote."""
        table = json.loads(content)
        self.gpu_s = Quantiles(table["probabilities"], table["gpu_s"])
        gangs = [(gpus, weight) for gpus, weight in GANGS if gpus <= gpus_max]
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
            for model in MODELS
        }
        for number in range(count):
            gpus = self.gangs[bisect_right(self.gang_shares, draw_gang())]
            # Whole seconds, so that no machine's mathematical library shows in a trace.
            duration_s = max(1, round(self.gpu_s.at(draw_gpu_time()) / gpus))
            spec = specs[gpus, MODELS[int(draw_model() * len(MODELS))]]
            end, job_id = end_of(draw_end(), ends), JobId(str(number))
            yield TraceJob(job_id, next(arrivals_us), spec, duration_s * 1_000_000, end)


def table_bytes() -> bytes:
    """Return the shipped table's bytes, part of every generated trace's digest."""
    return Path(__file__).with_name("tiresias.json").read_bytes()
