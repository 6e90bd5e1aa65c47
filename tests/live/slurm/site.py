"""A whole cluster on Slurm for tests: a config for a bench, a daemon at work, what is submitted."""

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest

from shunter.backends.slurm import node_service
from shunter.config import LoadedConfig, make_config
from shunter.core import Job
from shunter.daemon import Site, Submission
from shunter.events import JobId, JobSpec, Outcome
from tests.live.site.sites import at_work, verified
from tests.live.slurm.pilots import PATIENCE_S, PilotBench
from tests.live.ssh.bench import WORKER

SIZES: Mapping[str, object] = {"cpus": 4}


def cluster(bench: PilotBench, *nodes: str, **changes: object) -> LoadedConfig:
    """Return the config of some nodes of a bench, all if none are named.

    Args:
        bench: the Slurm cluster, and the folder of all files.
        nodes: their names.
        changes: of the table [backend.slurm], and as `policy` of the table [policy]; `sizes` are
            those of each [[cluster.nodes]].
    """
    policy = {"trigger": "event", **cast(dict[str, object], changes.pop("policy", {}))}
    sizes = cast("Mapping[str, object]", changes.pop("sizes", SIZES))
    found = [each for each in bench.slurm.nodes if not nodes or each.name in nodes]
    slurm: dict[str, object] = {
        "root": str(bench.root),
        "partition": "main",
        "listen": "127.0.0.1",
        "addresses": ("127.0.0.1",),
        "python": sys.executable,
        "poll": 2.0,
        "call": 5.0,
        "heartbeat": 0.5,
        "heartbeat_deadline": 60.0,
        "margin": 3.0,
        "grace": 0.5,
        "restart": 0.3,
        **changes,
    }
    return make_config(
        {
            "cluster": {
                "nodes": [
                    {"name": one.name, "gpus": one.gpus, "type": one.gpu_type, **sizes}
                    for one in found
                ]
            },
            "policy": policy,
            "backend": {"kind": "slurm", "slurm": slurm},
            "log": {"url": str(bench.folder / "log.db"), "snapshot_every": 15, "seal_after": 20},
        }
    )


@asynccontextmanager
async def served(
    bench: PilotBench, patch: pytest.MonkeyPatch, *nodes: str, **changes: object
) -> AsyncIterator[Site]:
    """Run a daemon on a bench, which looks at nodes as often as at the queue."""
    patch.setenv("SLURM_CONF", str(bench.slurm.conf))
    patch.setattr(node_service, "POLLS_BETWEEN", 0.25)
    bench.root.mkdir(mode=0o700, exist_ok=True)
    async with at_work(cluster(bench, *nodes, **changes)) as site:
        yield site


def worker(bench: PilotBench, key: str, work_s: float, code: int = 0, **fields: Any) -> Submission:
    """Return a job that keeps the ledger of a folder."""
    argv = (str(bench.folder), str(work_s), str(code))
    command = (sys.executable, "-I", "-S", "-c", WORKER, *argv)
    return Submission(JobSpec(command=command, **fields), key=key)


async def until(site: Site, holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds.

    Raises:
        AssertionError: it does not within a minute.
    """
    began_s = anyio.current_time()
    while not holds():
        jobs = {name: (job.phase, job.attempt) for name, job in site.state.jobs.items()}
        waited_s = anyio.current_time() - began_s
        assert waited_s < PATIENCE_S, f"waited for {what}; {jobs}; {dict(site.node_causes)}"
        await anyio.sleep(0.05)


def job_of(site: Site, job_id: JobId) -> Job:
    """Return a job that has not ended."""
    return site.state.jobs[job_id]


async def assert_all_well(bench: PilotBench, *outcomes: Outcome) -> None:
    """Hold that each job ended once, and well unless said otherwise, and that the log verifies."""
    bench.assert_nothing_twice()
    verdict = await verified(bench.folder)
    assert verdict.divergence is None, verdict.divergence
    names = [JobId(name) for name in verdict.past.keys.values()]
    found = [verdict.past.outcome(name) for name in names]
    assert found == list(outcomes or [Outcome.finished] * len(names))
    finished = {str(name) for name, how in zip(names, found, strict=True) if how == "finished"}
    done = [line[0] for line in bench.ledger() if line[4] == "done" and line[0] in finished]
    assert sorted(done) == sorted(finished), "each job does its last step once"
