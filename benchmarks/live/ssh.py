"""Servers over SSH: how soon jobs run there, what watching costs, how soon a cut is noticed.

    python -m benchmarks.live.ssh [--hosts 20] [--jobs 200] [--seconds 30] [--best-of 5]

The hosts are real sshds: one on loopback that plays all, and one in a network namespace (as root)
whose packets are dropped. `launch_s` is from the answer to a submission to the first line of user
code, the best of some. `idle_percent` is the share of one core that the scheduler takes while all
jobs run. `noticed_keepalives` is how many keepalives pass until a silent host is unreachable, and
`reconnect_s` how long after its packets flow again it is back: the median of some. Prints JSON.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import anyio

from benchmarks.live.sites import SAYS_WHEN, WHOEVER, at_work, comes
from shunter.backends.live import SshBackend
from shunter.config import LoadedConfig, make_config
from shunter.core import Input
from shunter.daemon import Site, Submission
from shunter.events import AttemptStarted, JobFinished, JobSpec, NodeReachable, NodeUnreachable
from tests.live.ssh.bench import Bench
from tests.live.ssh.farm import Farm, farm_at
from tests.live.ssh.namespaces import lacking, namespaces_at

BUDGET_LAUNCH_S = 0.5
BUDGET_IDLE_PERCENT = 2.0
BUDGET_NOTICED_KEEPALIVES = 3.0
BUDGET_RECONNECT_S = 0.5
KEEPALIVE_S = 1.0


def config(farm: Farm, root: Path, hosts: int, gpus: int) -> LoadedConfig:
    """Return a cluster of so many servers, all played by one sshd, with its usual limits."""
    one = farm["n0"]
    names = [f"h{number}" for number in range(hosts)]
    reached = {"address": one.address, "port": one.port}
    return make_config(
        {
            "cluster": {"nodes": [{"name": name, "gpus": gpus} for name in names]},
            "policy": {"trigger": "event"},
            "backend": {
                "kind": "ssh",
                "ssh": {
                    "root": str(root / "daemon"),
                    "known_hosts": str(farm.known_hosts),
                    "keys": [str(farm.key)],
                    "python": sys.executable,
                    "hosts": {name: {**reached, "base": str(root / name)} for name in names},
                },
            },
            "log": {"url": str(root / "log.db")},
        }
    )


async def launch_s(site: Site) -> float:
    """Return how long after its answer a submission's code runs on a server."""
    command = (sys.executable, "-I", "-S", "-c", SAYS_WHEN)
    job_id = await site.submit(Submission(JobSpec(command=command)), WHOEVER)
    answered_ns = time.monotonic_ns()
    await comes(site, 0, JobFinished, {job_id})
    said, _ = await site.read_output(job_id, 1, "stdout.0", 0, 100)
    return (int(said) - answered_ns) / 1e9


async def measure_site(root: Path, hosts: int, jobs: int, seconds: float, runs: int) -> list[float]:
    """Return the best launch, and the share of a core while all jobs run."""
    with farm_at(root / "farm", "n0") as farm:
        async with at_work(config(farm, root, hosts, -(-jobs // hosts))) as site:
            launches = [await launch_s(site) for _ in range(runs)]
            sleeps = Submission(JobSpec(command=("/bin/sleep", "10000")))
            names = {await site.submit(sleeps, WHOEVER) for _ in range(jobs)}
            await comes(site, 0, AttemptStarted, names)
            await anyio.sleep(5.0)
            spent_s, begun_s = time.process_time(), time.monotonic()
            await anyio.sleep(seconds)
            share = (time.process_time() - spent_s) / (time.monotonic() - begun_s)
    return [min(launches), 100 * share]


async def until(backend: SshBackend, kind: type[Input]) -> float:
    """Return how long it takes until a kind of input comes."""
    begun_s = time.monotonic()
    while True:
        _, inputs = await backend.observe(None)
        if any(isinstance(seen, kind) for seen in inputs):
            return time.monotonic() - begun_s


async def measure_links(root: Path, runs: int) -> list[float]:
    """Return after how many keepalives a cut is noticed, and how long reconnecting takes."""
    noticed, back = [], []
    with namespaces_at(root / "network", "n0") as network:
        bench = Bench(network, root)
        hosts = (replace(bench.host("n0"), name=bench.host("n0").name),)
        async with bench.opened(hosts=hosts, keepalive_s=KEEPALIVE_S, patrol_s=5.0) as backend:
            for _ in range(runs):
                network.drop("n0")
                noticed.append(await until(backend, NodeUnreachable) / KEEPALIVE_S)
                await anyio.sleep(1.0)
                network.undrop("n0")
                back.append(await until(backend, NodeReachable))
                await anyio.sleep(0.5)
    return [median(noticed), median(back)]


def main() -> None:
    """Measure and print the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--best-of", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ssh") as name:
        root = Path(name)
        launch, idle = anyio.run(
            measure_site, root, options.hosts, options.jobs, options.seconds, options.best_of
        )
        document = {
            "benchmark": "live_ssh",
            "hosts": options.hosts,
            "jobs": options.jobs,
            "launch_s": round(launch, 4),
            "budget_launch_s": BUDGET_LAUNCH_S,
            "idle_percent": round(idle, 2),
            "budget_idle_percent": BUDGET_IDLE_PERCENT,
        }
        if not lacking():
            keepalives, back = anyio.run(measure_links, root, options.best_of)
            document |= {
                "noticed_keepalives": round(keepalives, 2),
                "budget_noticed_keepalives": BUDGET_NOTICED_KEEPALIVES,
                "reconnect_s": round(back, 3),
                "budget_reconnect_s": BUDGET_RECONNECT_S,
            }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
