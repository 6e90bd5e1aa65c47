"""Small simulated runs whose logs are kept: what they decided once, they decide for ever.

    python -m tests.replay.golden_runs           print the digests of all runs as JSON
    python -m tests.replay.golden_runs FOLDER    write the logs into a folder, and the digests
    python -m tests.replay.golden_runs --write   keep the logs as they are made today

Write them again only when a decision was changed on purpose, and say so in the change.
"""

import asyncio
import json
import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from shunter.config import make_config
from shunter.events.log import export_jsonl, read_log
from shunter.run import RunDocument, setup, simulate

FOLDER = Path(__file__).parent / "runs"
SOLVED_FOLDER = FOLDER / "solved"
DIGESTS = FOLDER / "digests.json"

COSTS = {"start": "20s", "suspend": "10s", "resume": "30s", "migrate": "40s"}
FAILURES = {"mtbf": "8h", "mttr": "30m"}
GUARDS = {"min_runtime": "10m", "max_preemptions_per_job_hour": 2, "starvation_after": "6h"}

FEW = {"generate": {"jobs": 20, "load": 1.4, "gpus_max": 8}}


def few(name: str, policy: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a run of few jobs under a policy, with costs."""
    tables = {"workload": FEW, "simulation": {"costs": COSTS}, **more}
    return {"policy": {"name": name, **(policy or {})}, **tables}


RUNS: dict[str, dict[str, Any]] = {
    "fifo": {"policy": {"name": "fifo"}},
    "fifo_backfill-events": {"policy": {"name": "fifo_backfill", "trigger": "event"}},
    "fifo_easy": {"policy": {"name": "fifo_easy", "placement": "spread"}},
    # Without a solver, so that the bytes are the same on every machine.
    "gavel-isolated": {
        "policy": {
            "name": "gavel",
            "params": {"gavel": {"objective": "isolated", "turn": "10m", "recompute_every": "2h"}},
        },
        "simulation": {"costs": COSTS},
    },
    "las-costs": {"policy": {"name": "las"}, "simulation": {"costs": COSTS}},
    "las-guards": {"policy": {"name": "las", "guards": GUARDS}},
    "sjf-failures": {"policy": {"name": "sjf"}, "simulation": {"failures": FAILURES}},
    "srtf-all": {
        "policy": {"name": "srtf", "trigger": "event", "placement": "first_fit"},
        "simulation": {"costs": COSTS, "failures": FAILURES},
    },
    "two_level-srtf": {
        "policy": {"name": "two_level", "params": {"two_level": {"inside": "srtf", "turn": "6m"}}},
        "simulation": {"failures": FAILURES},
    },
    **{
        name: few(name)
        for name in (
            "drf",
            "ftf",
            "gittins",
            "shortest_expected",
            "shortest_gpu",
            "smallest",
            "tetris",
            "tiresias",
        )
    },
    "gandiva": few("gandiva", {"slicing": {"quantum": "5m"}}),
    "las-topology-decentralised": few(
        "las",
        {
            "trigger": "event",
            "placement": "topology",
            "topology": {"make_room": {"cost": "20s"}},
            "decentralised": {"staleness": "30s", "reserve_after": 2},
        },
    ),
}

TYPES = {
    "nodes": [
        {"name": "a", "gpus": 4, "type": "v100", "rack": "r1"},
        {"name": "b", "gpus": 4, "type": "k80", "rack": "r1"},
    ]
}
TABLE = {"generate": {"kind": "gavel-like", "jobs": 8}, "throughputs": "builtin:gavel"}
PRICES = {"prices": {"v100": 2.48, "k80": 0.45}}
SOLVED: dict[str, dict[str, Any]] = {
    name: few(name, {"params": {name: params}} if params else None, cluster=TYPES, workload=TABLE)
    for name, params in {
        "allox": {},
        "finish_time_fairness": {},
        "gandiva_fair": {},
        "hierarchical": {},
        "isolated": {},
        "makespan": {},
        "max_min_fairness": {},
        "max_sum_throughput": {},
        "min_cost": PRICES,
        "min_cost_slo": PRICES,
        "proportional": {},
        "shortest_job_first": {},
        "water_filling": {},
    }.items()
}
"""Runs with targets from solvers, whose last digits are not the same on every machine.

They are not made again; but from what their logs record the same is decided anywhere.
"""


def run(name: str, url: str) -> RunDocument:
    """Simulate one of the runs into a log; return its document."""
    tree = {
        "seed": 5,
        "cluster": {"nodes": [{"name": "gpu[1-3]", "gpus": 4, "type": "v100", "rack": "r1"}]},
        "workload": {"generate": {"jobs": 40, "load": 1.4, "gpus_max": 8}},
        **(RUNS | SOLVED)[name],
        "log": {"url": url, "snapshot_every": 100},
    }
    # A log names the version that wrote it; a release alone shall not change these.
    with patch.object(setup, "__version__", "golden"):
        return simulate(make_config(tree, name), overwrite=True).document


def exported(url: str) -> bytes:
    """Return a log as lines of JSON."""

    async def written() -> bytes:
        stream = BytesIO()
        async with read_log(url) as reader:
            await export_jsonl(reader, stream)
        return stream.getvalue()

    return asyncio.run(written())


def main(folder: Path | None) -> dict[str, dict[str, Any]]:
    """Make all runs; keep their logs in a folder if one is given."""
    found = {}
    with TemporaryDirectory() as scratch:
        for name in RUNS:
            url = str(Path(scratch) / f"{name}.db")
            document = run(name, url)
            found[name] = {
                "events": document["events"],
                "log": document["log"]["digest"],
                "state": document["state_digest"],
            }
            if folder is not None:
                (folder / f"{name}.jsonl").write_bytes(exported(url))
    return found


def keep_solved() -> None:
    """Make the runs that need solvers, and keep their logs."""
    with TemporaryDirectory() as scratch:
        for name in SOLVED:
            url = str(Path(scratch) / f"{name}.db")
            run(name, url)
            (SOLVED_FOLDER / f"{name}.jsonl").write_bytes(exported(url))


if __name__ == "__main__":
    writes = "--write" in sys.argv
    to = FOLDER if writes else Path(sys.argv[1]) if len(sys.argv) > 1 else None
    digests = json.dumps(main(to), indent=2) + "\n"
    if to is not None:
        (to / DIGESTS.name).write_text(digests)
    if writes:
        keep_solved()
    sys.stdout.write(digests)
