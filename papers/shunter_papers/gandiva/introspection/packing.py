"""Packing on a cluster that has more jobs than GPUs, by what turns alone would make of it.

The paper's jobs are not public. Here jobs of one GPU have the models of the public Gavel table,
which knows pairs of them, drawn by the seed; all come at once, and none ends in the time that
counts. What a cluster does is the sum of its jobs' rates, each over its rate alone, over its GPUs:
1 where jobs take turns and nothing is lost to changes of hands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from shunter.config import LoadedConfig
from shunter.core import Observers, RandomStream, View
from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId, TrialKept, TrialReason, TrialReverted, TrialStarted
from shunter.run import Report, run_all, simulate
from shunter.workloads import Trace, builtin_throughputs
from shunter_papers.gandiva.introspection.clusters import GAVEL, PACKING, config, lasting, trace_of
from shunter_papers.gandiva.scenes import COSTS, GPUS_PER_SERVER, Form
from shunter_papers.gandiva.work_curves import WorkCurves

GPU_TYPES: Final = ("p100", "v100", "k80")
CROWDING: Final[Mapping[str, Sequence[float]]] = {
    "quick": (1.5, 2.0),
    "full": (1.0, 1.5, 2.0, 2.5),
}
"""Jobs for each GPU, by form: what packing gains hangs on it."""

WINDOW_S: Final = 3 * 3600
"""The time that counts: from the first second on, so that all that trials lose is in it."""


@dataclass(frozen=True)
class Crowd:
    """Jobs of one GPU on a cluster of one type: so many for each GPU."""

    form: Form
    gpu_type: str
    crowding: float
    seed: int
    packs: bool

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return ceil(self.crowding * self.form.gpus)

    def config(self) -> LoadedConfig:
        """Return the config of a run."""
        nodes = {"count": self.form.servers, "gpus": GPUS_PER_SERVER, "type": self.gpu_type}
        return config(nodes, GAVEL, PACKING if self.packs else {}, COSTS, self.seed)

    def trace(self, table: ThroughputTable) -> Trace:
        """Return the jobs, each as long as the time that counts if it had a GPU alone."""
        gpu_type = GpuType(self.gpu_type)
        kinds = runnable(table, gpu_type)
        rng = RandomStream(self.seed, "reproduce gandiva packing", self.jobs)
        drawn = [kinds[rng.below(len(kinds))] for _ in range(self.jobs)]
        name = f"{self.jobs} jobs on {self.form.gpus} {self.gpu_type}"
        return trace_of(
            name,
            [
                lasting(table, gpu_type, kind, WINDOW_S, f"j{number}")
                for number, kind in enumerate(drawn)
            ],
        )


@dataclass(frozen=True)
class PackingRow:
    """What packing gains on a crowded cluster.

    `sliced` and `packed` are the rates of all jobs, each over its rate alone, for each GPU, without
    and with packs. `tried` packs were tried and `undone` of them given up as losses; `lost` is
    the part of all GPU time that these took.
    """

    gpu_type: str
    crowding: float
    jobs: int
    sliced: float
    packed: float
    tried: int
    undone: int
    lost: float

    @property
    def gain(self) -> float:
        """By which part the cluster does more with packs."""
        return self.packed / self.sliced - 1

    def document(self) -> dict[str, Any]:
        """Return the row as a part of the document."""
        return {
            "gpu_type": self.gpu_type,
            "jobs_per_gpu": self.crowding,
            "jobs": self.jobs,
            "rate_sliced": self.sliced,
            "rate_packed": self.packed,
            "gain": self.gain,
            "trials": self.tried,
            "undone": self.undone,
            "gpu_time_lost_in_trials": self.lost,
        }


@dataclass(frozen=True)
class _Played:
    rate: float
    tried: int
    undone: int
    undone_us: int


def runnable(table: ThroughputTable, gpu_type: GpuType) -> Sequence[JobKind]:
    """Return the kinds of one GPU that run on a type, in order."""
    return [kind for kind in table.kinds if kind.gpus == 1 and table.rate(gpu_type, kind)]


def compare(form: Form, seed: int, *, workers: int, report: Report | None) -> list[PackingRow]:
    """Run each crowd without and with packs.

    Args:
        form: the size of the cluster.
        seed: by which models are drawn.
        workers: how many processes.
        report: told how many runs are done.
    """
    crowds = [
        Crowd(form, gpu_type, crowding, seed, packs)
        for gpu_type in GPU_TYPES
        for crowding in CROWDING[form.name]
        for packs in (False, True)
    ]
    played = run_all(_play, crowds, workers, report)
    rows = []
    for number in range(0, len(crowds), 2):
        crowd, (sliced, packed) = crowds[number], played[number : number + 2]
        rows.append(
            PackingRow(
                crowd.gpu_type,
                crowd.crowding,
                crowd.jobs,
                sliced.rate,
                packed.rate,
                packed.tried,
                packed.undone,
                packed.undone_us / (WINDOW_S * 1e6 * form.gpus),
            )
        )
    return rows


def _play(crowd: Crowd) -> _Played:
    table = builtin_throughputs().table
    trace = crowd.trace(table)
    curves, trials = WorkCurves(), _Trials({}, [])
    simulate(crowd.config(), trace=trace, listeners=[curves.observers(), trials.observers()])
    window_us = round(WINDOW_S * 1e6)
    names = [job.job_id for job in trace.jobs]
    done = zip(trace.jobs, curves.of(names), strict=True)
    rates = [curve.done_us(window_us) / job.duration_us for job, curve in done]
    undone = [spans for spans in trials.undone if spans[0] < window_us]
    undone_us = sum(min(end_us, window_us) - begin_us for begin_us, end_us in undone)
    tried = sum(at_us < window_us for at_us in trials.began.values()) + len(trials.judged)
    return _Played(sum(rates) / crowd.form.gpus, tried, len(undone), undone_us)


class _Trials:
    """Follows which packs were tried, and how long those took that were given up."""

    def __init__(self, began: dict[JobId, int], undone: list[tuple[int, int]]) -> None:
        self.began = began
        self.undone = undone
        self.judged: list[JobId] = []

    def observers(self) -> Observers:
        """Return what it listens to."""

        def started(event: TrialStarted, view: View) -> None:
            self.began[event.job_id] = event.at_us

        def kept(event: TrialKept, view: View) -> None:
            self._judge(event.job_id, event.at_us)

        def reverted(event: TrialReverted, view: View) -> None:
            began_us = self._judge(event.job_id, event.at_us)
            if event.reason != TrialReason.room and began_us is not None:
                self.undone.append((began_us, event.at_us))

        return {TrialStarted: started, TrialKept: kept, TrialReverted: reverted}

    def _judge(self, job_id: JobId, at_us: int) -> int | None:
        began_us = self.began.pop(job_id, None)
        if began_us is not None and began_us < WINDOW_S * 1e6:
            self.judged.append(job_id)
        return began_us
