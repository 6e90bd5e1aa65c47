"""A job that has ended by the book of the policy or of the cluster alone is an error."""

from pathlib import Path

import pytest

from shunter.config import make_config
from shunter.errors import ShunterError
from shunter.run import simulate

FIRST, SECOND = ("ResNet-50 (batch size 32)", 25259, 0.0), ("Transformer (batch size 16)", 900, 9.0)
TYPES = ("v100", "p100", "k80")
SERVERS = [{"name": name, "gpus": 1, "type": name} for name in TYPES]


@pytest.mark.parametrize(
    ("round_", "lease", "told"),
    [
        ("6m", {}, r"job 0 has finished in the cluster, and has \d+ steps left by the book"),
        (
            "1m",
            {"progress": "whole_steps", "round_ends": "last_gang"},
            "job 1 has done all its steps by the book of gavel_peer, and works on in the cluster",
        ),
    ],
)
def test_two_counts_of_one_job_end_the_run(
    tmp_path: Path, round_: str, lease: dict[str, str], told: str
) -> None:
    """Method: rounds, or a lease, that are not those of the public simulator."""
    trace = tmp_path / "jobs.trace"
    rows = [
        f"{kind}\tnone\tnone\t-s\t0\t{n}\t1\t1\t-1\t{at_s}\n" for kind, n, at_s in (FIRST, SECOND)
    ]
    trace.write_text("".join(rows), encoding="utf-8")
    config = make_config(
        {
            "schema": 1,
            "cluster": {"nodes": SERVERS},
            "workload": {
                "trace": str(trace),
                "format": "gavel-trace",
                "throughputs": "builtin:gavel",
                "base_type": "v100",
            },
            "policy": {
                "name": "gavel_peer",
                "round": round_,
                "params": {"gavel_peer": {"policy": "fifo_perf"}},
            },
            "simulation": {"lease": lease} if lease else {},
            "log": {"url": "none:"},
        }
    )
    with pytest.raises(ShunterError, match=told):
        simulate(config)
