"""Jobs of the Gavel simulator with the table that Shunter ships, played twice.

Once by the literal simulator of this folder, once by Shunter in the peer setting.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from shunter.config import make_config
from shunter.run import RunResult, simulate
from shunter.workloads import builtin_throughputs
from tests.peers.gavel_inputs import GavelJob, GavelTable, servers_of
from tests.peers.gavel_literal import GavelRun
from tests.peers.gavel_policies_literal import literal_policy

__all__ = ["builtin_table", "play_gavel", "play_gavel_literally"]

PAIRING = ("gandiva", "fifo_packed")


@cache
def builtin_table() -> GavelTable:
    """Return the rates of `builtin:gavel` in the layout of a throughput file."""
    table = builtin_throughputs().table
    rows: dict[str, dict[str, dict[str, object]]] = {}
    for name, rates in table.alone.items():
        kinds = rows.setdefault(name, {})
        for kind, rate in rates.items():
            kinds.setdefault(_key(kind), {})["null"] = rate
        for (one, other), both in table.paired.get(name, {}).items():
            kinds[_key(one)][_key(other)] = list(both)
    return GavelTable(rows)


def play_gavel_literally(
    jobs: Sequence[GavelJob], gpus: Mapping[str, tuple[int, int]], policy: str
) -> dict[int, float | None]:
    """Return the completion time of each job in seconds; None: dropped.

    Args:
        jobs: in the order of arrival.
        gpus: by type, how many servers of how many GPUs.
        policy: one without a solver, by its name there.
    """
    types = ("v100", "p100", "k80")
    many = ":".join(str(gpus[name][0] * gpus[name][1]) if name in gpus else "0" for name in types)
    each = ":".join(str(gpus[name][1]) if name in gpus else "1" for name in types)
    run = GavelRun(
        builtin_table(),
        servers_of(many, each),
        literal_policy(policy),
        shuffles=policy in ("isolated", "fifo"),
        pairs_too=policy in PAIRING,
        is_fifo=policy.startswith("fifo"),
    )
    return run.run(jobs).jct_s


def play_gavel(
    jobs: Sequence[GavelJob], gpus: Mapping[str, tuple[int, int]], policy: str, folder: Path
) -> RunResult:
    """Run the same in Shunter, from a trace file of the simulator's own layout."""
    lines = [
        f"{job.model}\tnone %s\tnone\t--steps\t0\t{job.steps}\t{job.gpus}\t{job.weight:g}"
        f"\t-1.000000\t{job.arrival_s!r}"
        for job in jobs
    ]
    trace = folder / "jobs.trace"
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    tree = {
        "schema": 1,
        "cluster": {
            "nodes": [
                {"name": f"{name}-[1-{servers}]", "gpus": each, "type": name}
                for name, (servers, each) in gpus.items()
            ]
        },
        "workload": {
            "trace": str(trace),
            "format": "gavel-trace",
            "throughputs": "builtin:gavel",
            "base_type": "v100",
        },
        "policy": {
            "name": "gavel_peer",
            "round": "6m",
            "params": {"gavel_peer": {"policy": policy}},
        },
        "simulation": {"lease": {"progress": "whole_steps", "round_ends": "last_gang"}},
        "log": {"url": "none:"},
    }
    return simulate(make_config(tree, "tests of the peer setting"))


def _key(kind: tuple[str, int]) -> str:
    return f"('{kind[0]}', {kind[1]})"
