"""Two jobs on one GPU: one pair that gains, one that loses, one that does not fit.

The slides show a pair that gains, of super-resolution, without a number. The public Gavel table has
none of that; of its pairs of equal jobs on a P100 the one is taken here that gains most.
"""

from dataclasses import dataclass
from typing import Any, Final

from shunter.core import View
from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, TrialKept, TrialReverted
from shunter.run import simulate
from shunter.workloads import builtin_throughputs
from shunter_papers.gandiva.introspection.clusters import GAVEL, PACKING, config, lasting, trace_of
from shunter_papers.gandiva.introspection.packing import runnable
from shunter_papers.gandiva.scenes import COSTS

LOSING: Final = JobKind("ResNet-50 (batch size 16)", 1)
NOT_FITTING: Final = JobKind("ResNet-50 (batch size 128)", 1)
HOUR_S: Final = 3600


@dataclass(frozen=True)
class PairRow:
    """Two equal jobs on a GPU: what the table says, and what came of their trial.

    `table` and `measured` are the rates of both, each over its rate alone, added up.
    """

    gpu_type: str
    model: str
    table: float
    verdict: str
    reason: str
    measured: float

    def document(self) -> dict[str, Any]:
        """Return the row as a part of the document."""
        return {
            "gpu_type": self.gpu_type,
            "model": self.model,
            "table": self.table,
            "verdict": self.verdict,
            "reason": self.reason,
            "measured": self.measured,
        }


def compare() -> list[PairRow]:
    """Run each pair for an hour, and see what packing does to it."""
    table = builtin_throughputs().table
    p100, v100 = GpuType("p100"), GpuType("v100")
    best = max(runnable(table, p100), key=lambda kind: together(table, p100, kind))
    return [
        _row(table, gpu_type, kind)
        for gpu_type, kind in ((p100, best), (v100, LOSING), (p100, NOT_FITTING))
    ]


def together(table: ThroughputTable, gpu_type: GpuType, kind: JobKind) -> float:
    """Return what the rates of two equal jobs on a GPU add up to, of 1 alone."""
    alone, pair = table.rate(gpu_type, kind), table.pair_rates(gpu_type, kind, kind)
    return 0.0 if not alone or pair is None else sum(pair) / alone


def _row(table: ThroughputTable, gpu_type: GpuType, kind: JobKind) -> PairRow:
    jobs = [lasting(table, gpu_type, kind, HOUR_S, name) for name in ("a", "b")]
    verdicts: list[TrialKept | TrialReverted] = []

    def judged(event: TrialKept | TrialReverted, view: View) -> None:
        verdicts.append(event)

    loaded = config({"count": 1, "gpus": 1, "type": gpu_type}, GAVEL, PACKING, COSTS)
    trace = trace_of("two equal jobs", jobs)
    simulate(loaded, trace=trace, listeners=[{TrialKept: judged, TrialReverted: judged}])
    first = verdicts[0]
    verdict = "kept" if isinstance(first, TrialKept) else "given up"
    said = together(table, gpu_type, kind)
    return PairRow(gpu_type, kind.model, said, verdict, first.reason, first.measured)
