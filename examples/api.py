"""Run simulations from Python: one config as a dict, two policies, one number from each.

$ python examples/api.py
"""

from shunter.config import make_config
from shunter.run import simulate

config = make_config(
    {
        "schema": 1,
        "seed": 7,
        "cluster": {"nodes": [{"name": "gpu[1-4]", "gpus": 8}]},
        "workload": {"generate": {"kind": "philly-like", "jobs": 300, "load": 1.1}},
    }
)

for policy in ("fifo", "las"):
    result = simulate(config.replaced({"policy.name": policy}, "this script"))
    jct_s = result.document["jct_s"]
    print(f"{policy:5} mean JCT {jct_s['mean']:10,.1f} s   p99 {jct_s['p99']:12,.1f} s")

longest = max(result.stories(), key=lambda story: (story.wait_us or 0, -story.ordinal))
print(f"job {longest.job_id} waited longest: {(longest.wait_us or 0) / 3.6e9:.1f} hours")
