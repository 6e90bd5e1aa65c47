"""The clusters on which changes are tried, and jobs that last a known time alone."""

from typing import Any, Final

from shunter.config import LoadedConfig, make_config
from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId, JobSpec
from shunter.workloads import QualityReport, Trace, TraceJob
from shunter_papers.gandiva.scenes import GANDIVA, QUANTUM_S

PACKING: Final = {"packing": {"probe": f"{QUANTUM_S}s"}}
GAVEL: Final = {"throughputs": "builtin:gavel"}


def config(
    nodes: dict[str, Any],
    workload: dict[str, Any],
    params: dict[str, Any],
    costs: dict[str, Any],
    seed: int = 0,
) -> LoadedConfig:
    """Return the config of a run in which jobs are measured six times in a turn.

    Args:
        nodes: the group of servers.
        workload: the tables that say how fast jobs are.
        params: what gandiva tries.
        costs: what changes of hands and moves take.
        seed: of the run.
    """
    return make_config(
        {
            "schema": 1,
            "seed": seed,
            "cluster": {"nodes": [{"name": "gpu", **nodes}]},
            "workload": {"generate": {"kind": "philly-like", "jobs": 1}, **workload},
            "policy": {
                "name": GANDIVA,
                "trigger": "event",
                "slicing": {"quantum": f"{QUANTUM_S}s"},
                "params": {GANDIVA: params},
            },
            "simulation": {"costs": costs, "samples": {"every": f"{QUANTUM_S / 6}s"}},
            "log": {"url": "none:"},
        },
        "reproduce gandiva",
    )


def lasting(
    table: ThroughputTable, gpu_type: GpuType, kind: JobKind, seconds: int, name: str
) -> TraceJob:
    """Return a job of one GPU that takes so long alone on a type, from second 0 on."""
    rate, speed = table.rate(gpu_type, kind), table.speed(gpu_type, kind)
    assert rate is not None, "it was measured there"
    assert speed is not None, "and on the base type"
    spec = JobSpec(gpus=1, model=kind.model, total_steps=max(1, round(rate * seconds)))
    return TraceJob(JobId(name), 0, spec, round(seconds * 1e6 * speed))


def trace_of(name: str, jobs: list[TraceJob]) -> Trace:
    """Return a trace of jobs that were made up."""
    return Trace(name, "generated", jobs, "", QualityReport(len(jobs), len(jobs), len(jobs)))
