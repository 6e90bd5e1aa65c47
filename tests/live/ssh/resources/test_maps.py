"""The map of GPUs is found on servers over real sshds; their nvidia-smi is a script of ours.

What it prints has the form of the real one's. sysfs knows no such devices here, so it alone tells,
or the real lstopo, which is given a file of ours in place of the machine.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from shunter.backends.node.host import PROGRAMS
from shunter.config import LoadedConfig
from shunter.daemon import Site, Submission
from shunter.events import (
    AllocationChanged,
    AttemptStarted,
    Event,
    JobSpec,
    Level,
    LevelGroups,
    NodeAdded,
    NodeName,
    NodeRemoved,
)
from shunter.events.log import read_log
from tests.live.site.sites import NOBODY, at_work, events_until, outcome, verified
from tests.live.ssh.bench import Bench
from tests.live.ssh.farm import FarmHost
from tests.live.ssh.site import cluster
from tests.unit.backends.node.wiring.topologies import BUSES as HWLOC_BUSES, Topology

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

N0 = NodeName("n0")
CPUS = sorted(os.sched_getaffinity(0))
BUSES = ("ffff:41:00.0", "ffff:42:00.0", "ffff:81:00.0", "ffff:82:00.0")
SAYS = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['CUDA_VISIBLE_DEVICES'])"
SLEEPS = "import time; time.sleep(600)"


def table(*groups: tuple[int, int]) -> str:
    """Return what `nvidia-smi topo -m` prints of two switches, the second on the other socket."""
    on = {gpu: at for at, group in enumerate(groups) for gpu in group}
    heads = "".join(f"\tGPU{gpu}" for gpu in range(4))
    lines = [f"\x1b[4m{heads}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m"]
    for one in range(4):
        words = [
            " X " if one == two else "PIX" if on[one] == on[two] else "SYS" for two in range(4)
        ]
        near = CPUS[-1] if on[one] else CPUS[0]
        lines.append("\t".join([f"GPU{one}", *words, str(near), str(on[one]), "", "N/A"]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", ""])


def drives(host: FarmHost, topology: str, buses: Sequence[str] = BUSES) -> None:
    """Have a host find an nvidia-smi that tells of GPUs."""
    programs = host.folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "topology").write_text(topology)
    rows = "\n".join(
        f"{at}, GPU-{at}, NVIDIA A100-SXM4-80GB, {bus.rjust(16, '0')}, 7, 9, 81920"
        for at, bus in enumerate(buses)
    )
    (programs / "gpus").write_text(rows + "\n")
    told = f"then cat {programs}/topology; else cat {programs}/gpus; fi"
    text = f'#!/bin/sh\nif [ "$1" = topo ]; {told}\n'
    (programs / "nvidia-smi").write_text(text)
    (programs / "nvidia-smi").chmod(0o755)
    host.noisy(f"PATH={programs}:$PATH\n")


def one_server(bench: Bench, **given: object) -> LoadedConfig:
    """Return the config of a server of four GPUs, of whose map it says only what is given."""
    changed = {
        "cluster.nodes": [{"name": "n0", "gpus": 4, **given}],
        "policy.placement": "topology",
    }
    return cluster(bench.farm, bench.folder, nodes=("n0",)).replaced(changed, "test")


def job(program: str, gpus: int = 2) -> Submission:
    command = (sys.executable, "-I", "-S", "-c", program)
    return Submission(JobSpec(gpus, command=command, max_level=Level.switch))


async def events(path: Path) -> list[Event]:
    async with read_log(str(path)) as reader:
        return [event async for event in reader.events()]


def levels(*masks: int) -> tuple[LevelGroups, ...]:
    return (LevelGroups(Level.switch, masks),)


def found_levels(*masks: int) -> tuple[LevelGroups, ...]:
    """Return those of a server whose switches are each on a socket of their own."""
    return (*levels(*masks), LevelGroups(Level.socket, masks))


async def bound_of(site: Site, program: str = SAYS) -> str:
    """Run a job to its end; return what it printed."""
    name = await site.submit(job(program), NOBODY)
    assert await outcome(site, name) == "finished"
    return (await site.read_output(name, 1, "stdout.0", 0, 1000))[0].decode().strip()


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs, one for each socket")
async def test_map_is_found_and_changes_while_its_server_is_idle(bench: Bench) -> None:
    """Found; changed while a job runs, which it outlives; changed once idle; then not told."""
    host, log = bench.farm["n0"], bench.folder / "log.db"
    drives(host, table((0, 1), (2, 3)))
    async with at_work(one_server(bench)) as site:
        assert (site.maps[N0].by, site.maps[N0].notes) == ("nvidia-smi", ())
        assert await bound_of(site) == f"[{CPUS[0]}] 0,1"
        runs = await site.submit(job(SLEEPS), NOBODY)
        await events_until(site, lambda seen: sum(isinstance(e, AttemptStarted) for e in seen) > 1)

    drives(host, table((0, 2), (1, 3)))
    async with at_work(one_server(bench)) as site:
        assert site.maps[N0].by == "log"
        assert site.maps[N0].notes[0].startswith("it has another map than before")
        await site.tell(site.commands.cancel(runs, NOBODY))
        assert await outcome(site, runs) == "cancelled"

    async with at_work(one_server(bench)) as site:
        assert (site.maps[N0].by, site.maps[N0].notes) == ("nvidia-smi", ())
        assert await bound_of(site) == f"[{CPUS[0]}] 0,2"

    drives(host, "Failed to initialize NVML: Driver/library version mismatch\n")
    async with at_work(one_server(bench)) as site:
        assert site.maps[N0].by == "log"
        assert "is not known" in site.maps[N0].notes[0]

    seen = await events(log)
    added = [each.configuration.levels for each in seen if isinstance(each, NodeAdded)]
    assert added == [found_levels(0b0011, 0b1100), found_levels(0b0101, 0b1010)]
    assert sum(isinstance(each, NodeRemoved) for each in seen) == 1
    masks = [
        s.gpu_mask for e in seen if isinstance(e, AllocationChanged) for s in e.allocation.shares
    ]
    assert set(masks) <= {0b0011, 0b1100, 0b0101, 0b1010}
    assert (await verified(bench.folder)).divergence is None


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs, one for each socket")
async def test_map_of_the_config_counts_and_what_contradicts_it_is_said(bench: Bench) -> None:
    drives(bench.farm["n0"], table((0, 1), (2, 3)))
    given = {"switch_gpus": [[0, 3], [1, 2]]}
    async with at_work(one_server(bench, **given)) as site:
        assert site.maps[N0].by == "config"
        (note,) = site.maps[N0].notes
        assert await bound_of(site) == f"{CPUS[:1] + CPUS[-1:]} 1,2"
    (added,) = [
        e.configuration for e in await events(bench.folder / "log.db") if isinstance(e, NodeAdded)
    ]
    assert added.levels == levels(0b0110, 0b1001)
    assert note.startswith(
        "switches are [[0, 3], [1, 2]] by the config, and [[0, 1], [2, 3]] by the server "
        "(nvidia-smi): "
    )


async def test_server_that_is_silent_or_tells_nonsense_is_a_flat_one(bench: Bench) -> None:
    drives(bench.farm["n0"], table((0, 1), (2, 3))[:60])
    async with at_work(one_server(bench)) as site:
        assert site.maps[N0].by == ""
        (note,) = site.maps[N0].notes
    assert "it tells of 0 GPUs, and there are 4" in note
    (added,) = [e for e in await events(bench.folder / "log.db") if isinstance(e, NodeAdded)]
    assert (added.configuration.levels, added.configuration.name) == ((), "gpux4")


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs, one for each socket")
@pytest.mark.skipif(
    not any(map(shutil.which, PROGRAMS)), reason="lstopo is not installed (package hwloc)"
)
async def test_hwloc_tells_the_map_where_sysfs_and_the_driver_do_not(bench: Bench) -> None:
    """A topology that an operator has put in a file, asked of the real lstopo; then one cut off."""
    host, log = bench.farm["n0"], bench.folder / "log.db"
    drives(host, "Failed to initialize NVML: Driver/library version mismatch\n", HWLOC_BUSES)
    path = host.folder / "topology.xml"
    path.write_text(Topology([f"0x{1 << cpu:08x}" for cpu in (CPUS[0], CPUS[-1])]).text())
    host.noisy(f"PATH={host.folder}/bin:$PATH\nexport HWLOC_XMLFILE={path}\n")
    async with at_work(one_server(bench, gpus=8)) as site:
        assert (site.maps[N0].by, site.maps[N0].notes) == ("hwloc", ())
        assert [list(each.cpus) for each in site.maps[N0].sockets] == [CPUS[:1], CPUS[-1:]]
        assert await bound_of(site) == f"[{CPUS[0]}] 0,1"
    path.write_text(path.read_text()[:-30])
    async with at_work(one_server(bench, gpus=8)) as site:
        assert site.maps[N0].by == "log"
        assert "hwloc: lstopo-no-graphics fails with exit code 1" in site.maps[N0].notes[0]
    (added,) = [e for e in await events(log) if isinstance(e, NodeAdded)]
    assert added.configuration.levels == (
        LevelGroups(Level.switch, (0b11, 0b1100, 0b110000, 0b11000000)),
        LevelGroups(Level.socket, (0b1111, 0b11110000)),
    )
    assert (await verified(bench.folder)).divergence is None
