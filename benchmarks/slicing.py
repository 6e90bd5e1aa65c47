"""Time-slicing on 180 GPUs that are two times over-subscribed: CPU seconds for a simulated day.

    python -m benchmarks.slicing [--servers 45] [--best-of 3]

Two jobs of one GPU for each GPU, all from the beginning, in turns of 60 s, with a change of hands
of 0.1 s and mini-batch boundaries; each job has twelve hours to do, so the day ends with all of
them. The log is in SQLite. The budget is 20 s where the loop of `../shared/reference` takes 0.52 s.
Prints one JSON document.
"""

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.commands import simulated
from benchmarks.loop import loop_s

BUDGET_S, REFERENCE_LOOP_S = 20.0, 0.52
GPUS_PER_SERVER, HOURS_EACH, JOBS_PER_GPU = 4, 12, 2
BATCH_S = 0.6

CONFIG = """\
schema = 1
[cluster]
nodes = [{{ name = "gpu", count = {servers}, gpus = {gpus} }}]
[workload]
trace = "{trace}"
[policy]
name = "gandiva"
trigger = "event"
slicing = {{ quantum = "60s" }}
[simulation]
costs = {{ turn = "0.1s" }}
"""


def measure(servers: int, runs: int, folder: Path) -> dict[str, object]:
    """Simulate the day so many times and return the best."""
    jobs = servers * GPUS_PER_SERVER * JOBS_PER_GPU
    lasts_s = HOURS_EACH * 3600
    rows = [f"j{number},0,{lasts_s},1,{round(lasts_s / BATCH_S)}" for number in range(jobs)]
    trace, config = folder / "jobs.csv", folder / "slicing.toml"
    trace.write_text("job_id,submit_s,duration_s,gpus,total_steps\n" + "\n".join(rows) + "\n")
    config.write_text(CONFIG.format(servers=servers, gpus=GPUS_PER_SERVER, trace=trace))
    documents = [simulated(config, folder / "slicing.db").document for _ in range(runs)]
    assert len({document["log"]["digest"] for document in documents}) == 1, "runs differ"
    cpu_s = sorted(document["elapsed"]["cpu_s"] for document in documents)
    return {
        "benchmark": "slicing",
        "gpus": servers * GPUS_PER_SERVER,
        "jobs": jobs,
        "events": documents[0]["events"],
        "makespan_s": documents[0]["makespan_s"],
        "cpu_s": round(cpu_s[0], 2),
        "cpu_s_all": [round(value, 2) for value in cpu_s],
        "budget_cpu_s": round(BUDGET_S * loop_s() / REFERENCE_LOOP_S, 2),
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=45)
    parser.add_argument("--best-of", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(options.servers, options.best_of, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
