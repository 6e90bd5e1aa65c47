"""The runs of Gandiva's AutoML experiment: one search under one rule, on 16 GPUs in turns."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from shunter.config import LoadedConfig, make_config
from shunter.events import JobId, JobSpec, UserName
from shunter.workloads import QualityReport, Trace, TraceJob
from shunter_papers.gandiva.automl.curves import FITTED, SHORTER, SPREAD, Curves, Family
from shunter_papers.gandiva.automl.figures import EPOCH_BATCHES, GPUS_PER_SERVER, SERVERS
from shunter_papers.gandiva.automl.search import EPOCH_US, Rule


@dataclass(frozen=True)
class Variant:
    """What is run: a rule, turns, changes of hands, and the configurations."""

    name: str
    rule: Rule = field(default_factory=Rule)
    quantum_s: int = 60
    turn_s: float = 0.1
    family: Family = FITTED


MAIN: Final = Variant("as described")
VARIANTS: Final = (
    MAIN,
    Variant("no priority", Rule(gives_priority=False)),
    Variant("no kill", Rule(ends_hopeless=False)),
    Variant("neither", Rule(gives_priority=False, ends_hopeless=False)),
    Variant("oracle predictor", Rule(is_oracle=True)),
    Variant("judged each 2 epochs", Rule(every=2)),
    Variant("judged each 5 epochs", Rule(every=5)),
    Variant("judged each 20 epochs", Rule(every=20)),
    Variant("quantum 10 s", quantum_s=10),
    Variant("quantum 300 s", quantum_s=300),
    Variant("change of hands 1 s", turn_s=1.0),
    Variant("change of hands 10 s", turn_s=10.0),
    Variant("other curves, spread 0.6", family=SPREAD),
    Variant("other curves, 802 min", family=SHORTER),
)


def job_ids(curves: Curves) -> list[JobId]:
    """Return the ids of the jobs of a search, in the order of its configurations."""
    return [JobId(f"c{number}") for number in range(len(curves))]


def jobs(curves: Curves) -> Trace:
    """Return the jobs of a search, all of which are there from the beginning."""
    epochs = curves[0].epochs
    steps = epochs * EPOCH_BATCHES
    spec = JobSpec(gpus=1, total_steps=steps, user=UserName("search"), group="automl")
    rows = [TraceJob(job_id, 0, spec, epochs * EPOCH_US) for job_id in job_ids(curves)]
    report = QualityReport(len(rows), len(rows), len(rows))
    return Trace("a search", "generated", rows, "", report)


def config(
    policy: Literal["fifo", "gandiva"], variant: Variant = MAIN, log: str = "none:"
) -> LoadedConfig:
    """Return the config of a run."""
    section: dict[str, Any] = {"name": policy, "trigger": "event"}
    if policy == "gandiva":
        section["slicing"] = {"quantum": f"{variant.quantum_s}s"}
    return make_config(
        {
            "schema": 1,
            "cluster": {"nodes": [{"name": "gpu", "count": SERVERS, "gpus": GPUS_PER_SERVER}]},
            "workload": {"generate": {"kind": "philly-like", "jobs": 1}},
            "policy": section,
            "simulation": {"costs": {"turn": f"{variant.turn_s}s"}},
            "log": {"url": log},
        },
        "reproduce gandiva",
    )
