"""Placement `topology`: one search in a large cluster, and a trace against `consolidated`.

    python -m benchmarks.placement.topology [--servers 10000] [--trace PATH] [--best-of 3]

The first part places a gang of 8 GPUs that prefers to be near, on servers of 8 GPUs behind two
sockets and four switches, in racks: empty; fragmented, so that none has 8 free; so that no server
has more than one; and with CPUs and memory asked for. Each search takes its GPUs and gives them
back, so the index is brought up to date as in a run. The budget is 1 ms on a machine whose loop
(`loop.py`) takes 0.52 s. The second part runs the Philly trace under `las` with either placement,
on servers of two switches, in turns, and prints the ratio of the CPU seconds; the budget is 1.3.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.commands import ROOT, TRACES, simulated
from benchmarks.loop import loop_s
from shunter.core import Pool, Server
from shunter.core.planning import Mode, Topology, find
from shunter.events import ConfigurationSet, Demand, GpuType, Level, LevelGroups, NodeName

GANG, SEARCHES = 8, 200
RACK = 20
SWITCHES = LevelGroups(Level.switch, (0b11, 0b1100, 0b110000, 0b11000000))
SOCKETS = LevelGroups(Level.socket, (0b1111, 0b11110000))
BUDGET_MS, QUICK_LOOP_S = 1.0, 0.52
RATIO_MOST = 1.3


def cluster(servers: int, free: Callable[[int], int]) -> Pool:
    """Return a pool of servers of 8 GPUs, by number the mask of the free ones."""
    made = Pool("v100")
    for number in range(servers):
        where = ConfigurationSet(
            f"v100x8-{number // RACK}",
            GpuType("v100"),
            8,
            cpus_milli=64_000,
            memory_mb=512_000,
            rack=f"r{number // RACK}",
            domain=f"d{number // (RACK * 25)}",
            levels=(SWITCHES, SOCKETS),
        )
        made.add(Server(NodeName(f"n{number}"), where, number))
        made.set_free(number, free(number))
    return made


def fragmented(number: int) -> int:
    """Return seven to no GPUs, as if jobs had come and gone."""
    mask = (number * 2_654_435_761 >> 7) & 0xFF
    return mask if mask != 0xFF else 0x7F


def search_ms(pool: Pool, placement: Topology, demand: Demand) -> float:
    """Return how long one search takes: the median of many, with taking."""
    times = []
    for _ in range(SEARCHES):
        begun = time.perf_counter()
        found = find(placement, pool, demand)
        assert isinstance(found, list), found
        before = [pool.take(position, share) for position, share in found]
        times.append(time.perf_counter() - begun)
        for change in before:
            pool.restore(change)
    return statistics.median(times) * 1e3


def searches(servers: int) -> list[dict[str, object]]:
    """Return what each search costs."""
    clusters = {
        "empty": cluster(servers, lambda _: 0xFF),
        "fragmented": cluster(servers, fragmented),
        "one GPU of a server": cluster(servers, lambda number: 1 << number % 8),
    }
    plain, all_asked = Demand(GANG), Demand(GANG, cpus_milli=32_000, memory_mb=64_000)
    loop = loop_s()
    return [
        {
            "benchmark": "topology search",
            "servers": servers,
            "cluster": name,
            "mode": mode.value,
            "asks": asks,
            "ms": round(search_ms(pool, Topology(mode), demand), 3),
            "budget_ms": round(BUDGET_MS * loop / QUICK_LOOP_S, 2),
        }
        for name, pool in clusters.items()
        for mode in (Mode.pack, Mode.spread)
        for asks, demand in (("GPUs", plain), ("GPUs, CPUs, memory", all_asked))
    ]


def ratio(trace: Path, runs: int) -> dict[str, object]:
    """Return the CPU seconds of the trace under both placements, run in turns."""
    cpu_s: dict[str, list[float]] = {"consolidated": [], "topology": []}
    words = ["--set", f"workload.trace={trace}", "--policy", "las"]
    words += ["--set", "cluster.nodes.0.switches=2", "--set", "cluster.nodes.0.rack=r"]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for name, found in cpu_s.items():
                log = Path(folder) / f"{name}.db"
                more = ("--set", f"policy.placement={name}")
                ran = simulated(ROOT / "examples" / "philly.toml", log, *words, *more)
                found.append(ran.document["elapsed"]["cpu_s"])
                log.unlink(missing_ok=True)
    best = {name: min(found) for name, found in cpu_s.items()}
    return {
        "benchmark": "topology, Philly under las",
        "cpu_s": {name: round(value, 2) for name, value in best.items()},
        "ratio": round(best["topology"] / best["consolidated"], 3),
        "ratio_most": RATIO_MOST,
    }


def main() -> None:
    """Measure, and print one JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=10_000)
    parser.add_argument("--trace", type=Path, default=TRACES / "philly.csv")
    parser.add_argument("--best-of", type=int, default=3)
    options = parser.parse_args()
    for each in searches(options.servers):
        print(json.dumps(each), flush=True)
    if options.trace.exists():
        print(json.dumps(ratio(options.trace.resolve(), options.best_of)), flush=True)


if __name__ == "__main__":
    main()
