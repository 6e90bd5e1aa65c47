"""Whole simulated runs of Gavel on 36 V100, 36 P100 and 36 K80, as processes, log on disk.

    python -m benchmarks.gavel.runs [--best-of 3] [--small] [--policies gavel,gavel_peer]

Two settings: 200 jobs with gangs, and the paper's, jobs of one GPU at two an hour up to the 5,000th
(its averages are over the last thousand). The public simulator takes 4.4 s and 110 s; the budget of
`gavel_peer`, which plays it, is that over 3.8 and 5. `gavel` is our own policy, held to twice the
CPU of `gavel_peer` in the same run (`ratio`); both for max-min fairness. Prints a JSON document
for each, one a line.
"""

import argparse
import json
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks.commands import simulated

SETTINGS = (
    # name, jobs, jobs an hour, the widest gang, what the public simulator takes, how often less
    ("gangs 200", 200, 2.0, 8, 4.4, 3.8),
    ("paper 5000", 5000, 2.0, 1, 110.0, 5.0),
)
CONFIG = """
schema = 1
seed = 0
[workload]
throughputs = "builtin:gavel"
base_type = "v100"
[workload.generate]
kind = "gavel-like"
jobs = {jobs}
jobs_per_hour = {rate}
gpus_max = {gpus_max}
[policy]
name = "{policy}"
round = "6m"
[policy.params.gavel_peer]
policy = "max_min_fairness_perf"
{lease}
[cluster]
"""
NODES = """
[[cluster.nodes]]
name = "{name}-[1-9]"
gpus = 4
type = "{name}"
"""
LEASE = """
[simulation.lease]
progress = "whole_steps"
round_ends = "last_gang"
"""


def config_text(policy: str, jobs: int, rate: float, gpus_max: int) -> str:
    """Return the config of a setting: so many jobs at a rate an hour, gangs no wider than that."""
    lease = LEASE if policy == "gavel_peer" else ""
    head = CONFIG.format(jobs=jobs, rate=rate, gpus_max=gpus_max, policy=policy, lease=lease)
    return head + "".join(NODES.format(name=kind) for kind in ("v100", "p100", "k80"))


def main() -> None:
    """Measure, and print a JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--best-of", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="a tenth of the jobs")
    parser.add_argument("--policies", default="gavel_peer,gavel")
    options = parser.parse_args()
    if "gavel_peer" in options.policies and find_spec("shunter_peers") is None:
        raise SystemExit("no gavel_peer: pip install shunter-peers, or --policies gavel")
    with tempfile.TemporaryDirectory() as folder:
        for name, jobs, rate, gpus_max, public_s, times in SETTINGS:
            used_s: dict[str, float] = {}
            for policy in sorted(options.policies.split(","), key=lambda one: one != "gavel_peer"):
                config = Path(folder) / "config.toml"
                text = config_text(policy, jobs // 10 if options.small else jobs, rate, gpus_max)
                config.write_text(text)
                runs = [simulated(config, Path(folder) / "run.db") for _ in range(options.best_of)]
                best = min(runs, key=lambda ran: ran.wall_s)
                used_s[policy] = min(ran.cpu_s for ran in runs)
                found = best.document
                document = {
                    "benchmark": "gavel_runs",
                    "policy": f"{policy}, {name}",
                    "jobs": found["trace"]["jobs"],
                    "rounds": found["rounds"]["planned"],
                    "events": found["events"],
                    "jct_h": round(found["jct_s"]["mean"] / 3600, 2),
                    "wall_s": round(best.wall_s, 2),
                    "cpu_s": round(found["elapsed"]["cpu_s"], 2),
                }
                if policy == "gavel_peer":
                    public = {"public_wall_s": public_s, "budget_wall_s": public_s / times}
                    document |= {key: round(value, 2) for key, value in public.items()}
                elif "gavel_peer" in used_s:
                    ratio = used_s[policy] / used_s["gavel_peer"]
                    document |= {"ratio": round(ratio, 2), "budget_ratio": 2.0}
                print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
