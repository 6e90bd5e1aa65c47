"""Ranks over real sshds get the devices and the CPUs that the log says, on three hosts.

Each host has two made-up switches of two devices, each on a made-up socket with one of the CPUs of
this machine; two hosts are in one rack. What should hold is computed from the log alone: masks from
its allocations, groups from the servers in it, CPUs from the config it records.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from shunter.config import LoadedConfig
from shunter.daemon import Site, Submission
from shunter.events import (
    AllocationChanged,
    AttemptStarted,
    Event,
    GpuType,
    JobFailed,
    JobFinished,
    JobId,
    JobSpec,
    JobSubmitted,
    Level,
    NodeAdded,
    SchedulerStarted,
    Share,
    gpu_numbers,
)
from shunter.events.log import read_log
from tests.live.site.sites import NOBODY, at_work, verified
from tests.live.ssh.bench import Bench
from tests.live.ssh.site import cluster

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

PATIENCE_S = 240.0
CPUS = sorted(os.sched_getaffinity(0))
SAYS = """
import json, os, time
names = ("CUDA_VISIBLE_DEVICES", "XPU_MASK", "SHUNTER_NODE", "RANK")
time.sleep(SECONDS)
print(json.dumps([[os.environ.get(name) for name in names], sorted(os.sched_getaffinity(0))]))
"""
V100, XPU = GpuType("v100"), GpuType("xpu1")


def three_hosts(bench: Bench) -> LoadedConfig:
    """Return the config of n0 and n1 in rack r0, and n2 with devices of another kind in r1."""
    inside = {"sockets": 2, "switches": 2, "socket_cpus": [[CPUS[0]], [CPUS[-1]]], "cpus": 2}
    nodes = [
        {"name": "n0", "gpus": 4, "type": V100, "rack": "r0", **inside},
        {"name": "n1", "gpus": 4, "type": V100, "rack": "r0", **inside},
        {"name": "n2", "gpus": 4, "type": XPU, "device": "xpu", "rack": "r1", **inside},
    ]
    changed = {
        "cluster.nodes": nodes,
        "cluster.devices": {"xpu": {"visible": "XPU_MASK"}},
        "policy.placement": "topology",
    }
    return cluster(bench.farm, bench.folder).replaced(changed, "test")


def saying(seconds: float, **fields: Any) -> Submission:
    text = SAYS.replace("SECONDS", str(seconds))
    command = (sys.executable, "-I", "-S", "-c", text)
    return Submission(JobSpec(command=command, gpu_types=(V100, XPU), **fields))


JOBS = [
    *[saying(0.3, gpus=1) for _ in range(5)],
    *[saying(0.2 + number / 10, gpus=2, max_level=Level.switch) for number in range(7)],
    *[saying(0.2, gpus=1, cpus_milli=1000) for _ in range(3)],
    saying(0.2, gpus=3),
    saying(0.2, gpus=2, cpus_milli=2000),
    saying(0.3, gpus=4, max_level=Level.server),
    saying(0.3, gpus=6, max_level=Level.rack),
    *[saying(0.2, gpus=2, max_level=Level.switch) for _ in range(2)],
]


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs, one for each socket")
async def test_ranks_get_the_devices_and_cpus_that_the_log_says(bench: Bench) -> None:
    async with at_work(three_hosts(bench)) as site:
        jobs = [await site.submit(job, NOBODY) for job in JOBS]
        await all_finish(site, set(jobs))
        said = {
            (job, rank): await printed(site, job, rank)
            for job in jobs
            for rank in range(3)  # no gang can be on more hosts
        }
    assert (await verified(bench.folder)).divergence is None
    log = Log([event async for event in _events(bench.folder / "log.db")])
    assert sorted(log.shares) == sorted(jobs)
    spread = Counter[int]()
    for job, shares in log.shares.items():
        for rank, share in enumerate(shares):
            assert json.loads(said[job, rank]) == log.expected(job, rank, share), f"{job}.{rank}"
        assert not any(said[job, rank] for rank in range(len(shares), 3))
        spread[len(shares)] += 1
        assert log.widest(job, shares) <= log.levels_max[job], f"{job} crosses: {shares}"
    bound = [json.loads(words)[1] for words in said.values() if words]
    print(f"{len(jobs)} jobs, ranks by job {dict(spread)}, CPUs {Counter(map(str, bound))}")
    assert spread[2], "the gang of six is on two hosts"
    assert {len(cpus) for cpus in bound} == {1, 2}


class Log:
    """What a log says of devices: what each job was given, and how servers are made."""

    def __init__(self, events: list[Event]) -> None:
        (began,) = [each for each in events if isinstance(each, SchedulerStarted)]
        nodes = json.loads(began.config)["cluster"]["nodes"]
        self.socket_cpus = {each["name"]: each["socket_cpus"] for each in nodes}
        self.where = {
            each.node: each.configuration for each in events if isinstance(each, NodeAdded)
        }
        specs = {each.job_id: each.spec for each in events if isinstance(each, JobSubmitted)}
        self.specs = specs
        order = list(Level)
        self.levels_max = {
            job: order.index(spec.max_level or Level.cluster) for job, spec in specs.items()
        }
        started = {each.job_id for each in events if isinstance(each, AttemptStarted)}
        given = [each for each in events if isinstance(each, AllocationChanged)]
        assert all(each.allocation.shares for each in given), "nothing was suspended"
        self.shares = {each.job_id: each.allocation.shares for each in given}
        assert started == set(self.shares)

    def expected(self, job: JobId, rank: int, share: Share) -> list[object]:
        """Return what a rank is to print: its environment, and its CPUs."""
        devices = ",".join(map(str, gpu_numbers(share.gpu_mask)))
        shown = [devices, None] if self.where[share.node].device == "gpu" else [None, devices]
        cpus = [
            cpu
            for mask, near in zip(self.groups(share, "socket"), self.near(share), strict=True)
            if mask & share.gpu_mask
            for cpu in near
        ]
        if 1000 * len(cpus) < share.cpus_milli:
            cpus = CPUS[:1] + CPUS[-1:]
        return [[*shown, share.node, str(rank)], sorted(cpus)]

    def near(self, share: Share) -> list[list[int]]:
        cpus: list[list[int]] = self.socket_cpus[share.node]
        return cpus

    def groups(self, share: Share, level: str) -> tuple[int, ...]:
        """Return the masks of a level; where every socket has one switch, switches say both."""
        masks = {each.level.value: each.masks for each in self.where[share.node].levels}
        return masks.get(level) or masks["switch"]

    def widest(self, job: JobId, shares: tuple[Share, ...]) -> int:
        """Return how far apart the devices of a job are, as the place of the level in order."""
        order = list(Level)
        if len(shares) > 1:
            racks = {self.where[share.node].rack for share in shares}
            return order.index(Level.rack if len(racks) == 1 else Level.cluster)
        (share,) = shares
        for level in (Level.switch, Level.socket):
            if any(not share.gpu_mask & ~mask for mask in self.groups(share, level.value)):
                return order.index(level)
        return order.index(Level.server)


async def all_finish(site: Site, left: set[JobId]) -> None:
    """Wait until jobs have ended well."""
    with anyio.fail_after(PATIENCE_S):
        async for _, event in site.follow(0):
            assert not isinstance(event, JobFailed), event
            if isinstance(event, JobFinished):
                left.discard(event.job_id)
            if not left:
                return


async def printed(site: Site, job: JobId, rank: int) -> str:
    said, _ = await site.read_output(job, 1, f"stdout.{rank}", 0, 10_000)
    return said.decode()


async def _events(path: Path) -> Any:
    async with read_log(str(path)) as reader:
        async for event in reader.events():
            yield event
