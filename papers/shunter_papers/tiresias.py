"""The comparison of Tiresias (Gu et al., NSDI 2019): who finishes jobs sooner, and by how much.

YARN-CS is the baseline: jobs start in the order in which they came, hold their GPUs to the end, and
a gang waits until it can have the fewest servers that could hold it. SRTF knows every duration;
2D-LAS and 2D-Gittins do not. These three place by skew: only gangs of skewed models wait for few
servers. No duration depends on where a job runs, which spares those that spread.

The first trace is generated in the shape of the paper's, on 15 servers with 4 GPUs, at three loads;
decisions are made at every event, as in the paper's simulator. The second is the Philly trace, on
as many such servers as make its load the one wanted, decided every minute because it is long. Who
names no trace file gets `philly-like` jobs instead, and is told so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shunter.config import LoadedConfig, make_config
from shunter.run import SCHEMA, Report, load_jobs
from shunter.workloads import QualityReport, Trace, describe_trace, load_trace
from shunter_papers.claims import Claim, claim_document, sentences
from shunter_papers.experiments import Contender, Scene, Variant, run_scenes
from shunter_papers.tables import Table, table_document

CLAIM: Final = Claim(
    text="up to 5.5× lower average JCT than the YARN baseline",
    source="Tiresias, NSDI 2019",
    ratio=5.5,
    labels=("2D-LAS", "2D-Gittins"),
)

CONTENDERS: Final = (
    # Above a threshold of zero every gang is skewed, and waits for the fewest servers.
    Contender(
        "YARN-CS", "fifo", {"policy.skew.threshold": 0.0, "policy.skew.unknown": "consolidate"}
    ),
    Contender("SRTF", "srtf"),
    Contender("2D-LAS", "tiresias"),
    Contender("2D-Gittins", "gittins"),
)

COSTS: Final = {"suspend": "15s", "resume": "45s", "migrate": "45s"}
"""A minute for each preemption, in which the job holds its GPUs; our choice."""

VARIANTS: Final = (
    Variant("free", "free"),
    Variant("costs", "60 s", {f"simulation.costs.{name}": span for name, span in COSTS.items()}),
)

GPUS_PER_SERVER: Final = 4
SERVERS: Final = 15
"""The paper's cluster, 60 GPUs."""

LOADS: Final = (0.7, 0.9, 1.1)
PHILLY_LOADS: Final = (0.5, 0.7, 0.9)
"""Lower: gangs of 16 and more that wait for whole servers leave the baseline less of them."""

PHILLY_LIKE_SERVERS: Final = 25
JOBS_GENERATED: Final = 3_000
JOBS_OF_FILE: Final = 15_000
LEGEND: Final = (
    "baseline YARN-CS: fifo, nobody is preempted, and a gang waits for the fewest servers it needs",
    "the others keep only gangs of models with one very large tensor on the fewest servers",
    "load: what was asked for; offered: that of the very jobs, between first and last submission",
    "restarts: for how long a preempted job holds its GPUs and does no work; 60 s are "
    + " and ".join(f"{COSTS[name]} to {name}" for name in ("suspend", "resume")),
)

STAND_IN: Final = (
    "no --trace was named: generated jobs of kind philly-like stand in for the Philly trace"
)


@dataclass(frozen=True)
class Asked:
    """What the operator chose; `jobs` of None is `JOBS_GENERATED` or `JOBS_OF_FILE`."""

    seed: int = 0
    jobs: int | None = None
    trace: Path | None = None


@dataclass(frozen=True)
class Reproduction:
    """Everything that was found."""

    document: dict[str, Any]
    tables: tuple[Table, ...]


def reproduce(
    asked: Sequence[Scene], seed: int, *, workers: int = 1, report: Report | None = None
) -> Reproduction:
    """Run the comparison in some scenes.

    Args:
        asked: what `scenes` returned.
        seed: theirs, for the document.
        workers: how many processes.
        report: told how many runs are done.
    """
    tables = run_scenes(asked, VARIANTS, CONTENDERS, workers=workers, report=report)
    document = {
        "schema": SCHEMA,
        "evidence": "simulated",
        "paper": "tiresias",
        "seed": seed,
        "baseline": CONTENDERS[0].label,
        "variants": [
            {"name": variant.name, "settings": dict(variant.settings)} for variant in VARIANTS
        ],
        "notes": list(LEGEND),
        "tables": [table_document(table) for table in tables],
        "claim": claim_document(CLAIM, tables),
        "sentences": sentences(CLAIM, tables),
    }
    return Reproduction(document, tuple(tables))


def scenes(asked: Asked) -> tuple[list[Scene], QualityReport | None]:
    """Return the traces with their loads, and the report on one that was read.

    Raises:
        TraceError: the trace cannot be read.
    """
    jobs = asked.jobs or JOBS_GENERATED
    made = [_generated("tiresias-like", load, jobs, asked.seed, SERVERS) for load in LOADS]
    if asked.trace is None:
        servers = PHILLY_LIKE_SERVERS
        made += [
            _generated("philly-like", load, jobs, asked.seed, servers, notes=(STAND_IN,))
            for load in PHILLY_LOADS
        ]
        return made, None
    trace, rows = _beginning(asked.trace, asked.jobs or JOBS_OF_FILE)
    made += [_read(asked.trace, trace, rows, load, asked.seed) for load in PHILLY_LOADS]
    return made, trace.report


def _generated(
    kind: str, load: float, jobs: int, seed: int, servers: int, notes: tuple[str, ...] = ()
) -> Scene:
    workload = {"generate": {"kind": kind, "jobs": jobs, "load": load}}
    is_paper = kind == "tiresias-like"
    history = "builtin:yarn-gput1000" if is_paper else "log"
    config = _config(seed, servers, workload, history, at_events=is_paper)
    offered = describe_trace(load_jobs(config), config.config.cluster.gpus).load
    return Scene(kind, load, offered, config, notes)


def _beginning(path: Path, jobs: int) -> tuple[Trace, tuple[int, int]]:
    """Return the first so many jobs of a file, or all, and which rows they are."""
    whole = load_trace(path)
    if len(whole.jobs) <= jobs:
        return whole, (0, len(whole.jobs))
    return load_trace(path, rows=(0, jobs)), (0, jobs)


def _read(path: Path, trace: Trace, rows: tuple[int, int], load: float, seed: int) -> Scene:
    """Return the scene of a file on as many servers as bring it nearest to a load."""
    gpus_mean = describe_trace(trace, None).gpus_mean or 0.0
    widest = max(job.spec.gpus for job in trace.jobs)
    servers = max(-(-widest // GPUS_PER_SERVER), round(gpus_mean / load / GPUS_PER_SERVER), 1)
    workload = {"trace": str(path), "rows": list(rows)}
    config = _config(seed, servers, workload, "log", at_events=False)
    offered = describe_trace(trace, config.config.cluster.gpus).load
    return Scene(trace.source, load, offered, config)


def _config(
    seed: int, servers: int, workload: Mapping[str, object], history: str, *, at_events: bool
) -> LoadedConfig:
    nodes = [{"name": "gpu", "count": servers, "gpus": GPUS_PER_SERVER, "type": "p100"}]
    policy = {
        "trigger": "event" if at_events else "round",
        "round": "60s",
        "placement": "skew",
        "params": {"gittins": {"history": history}},
    }
    tree = {
        "schema": 1,
        "seed": seed,
        "cluster": {"nodes": nodes},
        "workload": dict(workload),
        "policy": policy,
    }
    return make_config(tree, "reproduce tiresias")
