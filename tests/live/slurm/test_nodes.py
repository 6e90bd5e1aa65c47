"""Nodes that Slurm has out of service, and maintenance, as a daemon on a real cluster sees them."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shunter.api import Metrics
from shunter.ask.why import document, explain
from shunter.core import JobPhase
from shunter.daemon import Caller, Site
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    JobId,
    JobSubmitted,
    JobSuspended,
    LaunchFailed,
    Level,
    LevelGroups,
    NodeAdded,
    NodeDrained,
    NodeName,
    NodeReachable,
    NodeRemoved,
    NodeRestored,
    NodeUnreachable,
    Outcome,
    to_object,
)
from shunter.events.log import read_log
from shunter.ops import PILOT_KINDS, moved_by_pilots
from shunter.run import rebuild
from tests.live.site.sites import NOBODY, verified
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.pilots import PilotBench
from tests.live.slurm.site import assert_all_well, job_of, served, until, worker
from tests.live.ssh.resources.test_maps import BUSES, table

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
]
N1, N2, N3 = NodeName("n1"), NodeName("n2"), NodeName("n3")
ANA = Caller("ana", None, is_admin=True)


@pytest.fixture
def bench(slurm: SlurmBench, tmp_path: Path) -> Iterator[PilotBench]:
    """A cluster, and a folder that is empty."""
    found = PilotBench(slurm, tmp_path)
    yield found
    found.clean()


async def drains(bench: PilotBench) -> list[tuple[str, str, str]]:
    """Return what the log has of nodes drained and restored: kind, node, by whom."""
    async with read_log(str(bench.folder / "log.db")) as reader:
        return [
            (type(event).__name__, str(event.node), event.by)
            async for event in reader.events()
            if isinstance(event, NodeDrained | NodeRestored)
        ]


def is_drained(site: Site, *nodes: str) -> bool:
    return [
        name for name, server in sorted(site.state.cluster.servers.items()) if server.drained
    ] == list(nodes)


async def test_node_drained_under_a_job_takes_no_other_and_comes_back_after_a_restart(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person drains another one, which stays as the person wants it."""
    async with served(bench, monkeypatch, "n1", "n2") as site:
        one = await site.submit(worker(bench, "one", 0.1, code=-1, gpus=3), NOBODY)
        await until(site, lambda: job_of(site, one).phase is JobPhase.running, "one runs")
        node = job_of(site, one).held.shares[0].node
        other = next(name for name in (N1, N2) if name != node)
        bench.slurm.drain(node, "a fan is broken")
        await site.tell(site.commands.drain(other, ANA))
        await until(site, lambda: is_drained(site, "n1", "n2"), "both drained")
        assert site.node_causes[node] == f"Slurm has node {node} drained: a fan is broken"
        assert job_of(site, one).phase is JobPhase.running, "it runs on"
        two = await site.submit(worker(bench, "two", 0.1, gpus=1), NOBODY)
    async with served(bench, monkeypatch, "n1", "n2") as site:
        assert is_drained(site, "n1", "n2")
        await until(site, lambda: site.node_causes.get(node, "") != "", "Slurm was asked")
        bench.slurm.command("scontrol", "update", f"NodeName={node}", "State=RESUME")
        await until(site, lambda: is_drained(site, other), "one restored")
        await until(site, lambda: two not in site.state.jobs, "two ends on the node that is back")
        await site.tell(site.commands.suspend(one, NOBODY))
        await until(site, lambda: job_of(site, one).since_us is None, "one has saved")
        await site.tell(site.commands.resume(one, NOBODY))
        await until(site, lambda: not site.state.jobs, "the end of all")
    assert sorted(await drains(bench)) == sorted(
        [
            ("NodeDrained", node, f"slurm: Slurm has node {node} drained: a fan is broken"),
            ("NodeDrained", other, "ana"),
            ("NodeRestored", node, "slurm: in service again"),
        ]
    )
    await assert_all_well(bench)


async def test_metrics_tell_whether_slurm_answers(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(bench, monkeypatch, "n1") as site:
        metrics = Metrics(site)

        def told() -> list[str]:
            return re.findall(
                r"^shunter_slurm_answering (\S+)$", metrics.page(0).decode(), re.MULTILINE
            )

        await until(site, lambda: told() == ["1.0"], "an answer")
        bench.slurm.kill_slurmctld()
        await until(site, lambda: told() != ["1.0"], "the silence")
        assert told() == ["0.0"]
        bench.slurm.start_slurmctld()
        await until(site, lambda: told() != ["0.0"], "an answer again")
        assert told() == ["1.0"]


async def test_node_that_nobody_needs_is_not_held_and_neither_lost_nor_unreachable(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(bench, monkeypatch, "n1", "n2") as site:
        metrics = Metrics(site)

        def states() -> dict[str, str]:
            lines = metrics.page(0).decode().splitlines()
            pattern = re.compile(r'shunter_node_state\{node="(\w+)",state="([a-z ]+)"\} 1.0')
            found = [one for line in lines if (one := pattern.fullmatch(line))]
            return {one[1]: one[2] for one in found}

        await until(site, lambda: site.node_causes.keys() >= {"n1", "n2"}, "why they are away")
        nobody = {"n1": "not held", "n2": "not held"}
        await until(site, lambda: states() == nobody, "both are not held")
        one = await site.submit(worker(bench, "one", 0.1, code=-1, gpus=3), NOBODY)
        await until(site, lambda: job_of(site, one).phase is JobPhase.running, "it runs")
        held = job_of(site, one).held.shares[0].node
        other = next(name for name in (N1, N2) if name != held)
        assert states() == {held: "up", other: "not held"}
        await site.tell(site.commands.drain(held, ANA))
        await until(site, lambda: states()[held] == "drained", "it is drained")
        await site.tell(site.commands.cancel(one, NOBODY))
        await until(site, lambda: not site.state.jobs, "the end of the job")
    async with read_log(str(bench.folder / "log.db")) as reader:
        numbered = [event async for event in reader.events()]
        seq = 1 + next(n for n, each in enumerate(numbered) if isinstance(each, JobSubmitted))
        at_us = numbered[seq].at_us
        said = document(await explain(reader, one, seq + 1, at_us, rebuild))
    whole = " ".join([said["headline"], *said["details"], *said["short"].values()])
    assert "n1 is not held, n2 is not held" in whole
    assert "does not answer" not in whole
    await assert_all_well(bench, Outcome.cancelled)


async def test_who_is_preempted_for_the_job_of_a_cancelled_pilot_is_told_which_pilot_that_was(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = {"name": "las", "guards": {"min_runtime": 0}}
    async with served(bench, monkeypatch, "n1", "n2", policy=policy) as site:
        first = worker(bench, "first", 0.1, code=-1, gpus=4, priority=5)
        first_id = await site.submit(first, NOBODY)
        await until(site, lambda: job_of(site, first_id).phase is JobPhase.running, "the one runs")
        moved = await site.submit(worker(bench, "moved", 0.1, code=-1, gpus=4), NOBODY)
        await until(site, lambda: job_of(site, moved).phase is JobPhase.running, "both run")
        node = job_of(site, first_id).held.shares[0].node
        (number,) = bench.pilots()[node]
        bench.slurm.command("scancel", str(number))
        await until(site, lambda: job_of(site, moved).phase is JobPhase.waiting, "it waits")
        for job in (moved, first_id):
            await site.tell(site.commands.cancel(job, NOBODY))
        await until(site, lambda: not site.state.jobs, "the end of both")
    async with read_log(str(bench.folder / "log.db")) as reader:
        events = [event async for event in reader.events()]
        left = [isinstance(one, GpusReleased) and one.job_id == moved for one in events]
        seq = 1 + left.index(True)
        said = document(await explain(reader, moved, seq, events[seq - 1].at_us, rebuild))
    pilot = f"the pilot on node {node} (Slurm job {number}) is about to end: "
    lost = f"{first_id} had lost its own GPUs at "
    assert [lost in said["short"]["waits_for"], pilot in said["short"]["waits_for"]] == [True] * 2
    assert any(line.startswith(lost) and pilot in line for line in said["details"])
    read = [each for each in events if type(each).__name__ in PILOT_KINDS.split(",")]
    told = moved_by_pilots({"at": each.at_us, **to_object(each)} for each in read)
    ((cause, by_pilot),) = told.items()
    assert cause.startswith(pilot)
    assert "scancel" in cause
    assert by_pilot == ([first_id], [moved])
    await assert_all_well(bench, *[Outcome.cancelled] * 2)


async def test_pilot_that_is_about_to_end_takes_no_job_that_waits(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job that waits fits there as soon as the other one has left, which is at once.

    Goal: the core drains the node before that, has a successor asked for, and starts nothing there
    until it is in.
    """
    async with served(bench, monkeypatch, "n1") as site:
        one = await site.submit(worker(bench, "one", 1.0, gpus=3), NOBODY)
        await until(site, lambda: job_of(site, one).phase is JobPhase.running, "one runs")
        await site.submit(worker(bench, "two", 0.1, gpus=2), NOBODY)
        (number,) = bench.pilots()["n1"]
        bench.slurm.command("scancel", "--signal=USR1", "--batch", str(number))
        await until(site, lambda: not site.state.jobs, "the end of all")
        assert bench.pilots()["n1"] != [number]
    async with read_log(str(bench.folder / "log.db")) as reader:
        events = [event async for event in reader.events()]
    kinds = [type(event) for event in events]
    drained = kinds.index(NodeDrained)
    silent = kinds.index(NodeUnreachable, drained)
    restored, back = kinds.index(NodeRestored), kinds.index(NodeReachable, silent)
    suspended = kinds.index(JobSuspended)
    assert drained < suspended < silent < restored < back
    told = events[drained]
    assert isinstance(told, NodeDrained)
    pilot = f"the pilot on node n1 (Slurm job {number})"
    assert told.by.startswith(f"slurm: {pilot} is about to end: Slurm has sent it")
    assert "Slurm has sent it SIGUSR1 (scancel or preemption)" in told.by
    left = events[suspended]
    assert isinstance(left, JobSuspended)
    assert left.cause == told.by.removeprefix("slurm: ")
    assert not {AttemptStarted, AttemptLost, LaunchFailed} & set(kinds[drained:back])
    assert sum(bench.runs().values()) == 3
    await assert_all_well(bench)


async def test_maintenance_is_planned_around_and_said_in_words(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node is kept from 5 minutes on, the other from 20 minutes on."""
    for name, node, minutes in (("soon", "n1", 5), ("later", "n2", 20)):
        create = ("scontrol", "create", "reservation", f"ReservationName={name}", "Users=root")
        when = (f"StartTime=now+{minutes}minutes", "Duration=60", f"Nodes={node}", "Flags=MAINT")
        bench.slurm.command(*create, *when)
    try:
        async with served(bench, monkeypatch, "n1", "n2") as site:
            await until(site, lambda: is_drained(site, "n1"), "n1 is drained")
            words = "Slurm keeps node n1 for maintenance from "
            await until(site, lambda: words in site.node_causes.get(N1, ""), "it is said")
            print(site.node_causes[N1])
            one = await site.submit(worker(bench, "one", 0.1), NOBODY)
            await until(site, lambda: JobId(one) not in site.state.jobs, "the end of the job")
            (number,) = bench.pilots()["n2"]
            limit = bench.slurm.command("squeue", "-h", "-o", "%l", "-j", str(number)).strip()
            assert limit in {"17:00", "18:00"}, "a tenth less than what is left"
            assert "n1" not in bench.pilots()
            bench.slurm.command("scontrol", "delete", "ReservationName=soon")
            await until(site, lambda: is_drained(site), "n1 is restored")
    finally:
        for name in ("soon", "later"):
            bench.slurm.command("scontrol", "delete", f"ReservationName={name}", check=False)
    await assert_all_well(bench)


@contextmanager
def with_topology(bench: SlurmBench, text: str) -> Iterator[None]:
    """Have Slurm told of another network, for a while."""
    path = bench.folder / "etc" / "topology.conf"
    before = path.read_text()
    try:
        path.write_text(text)
        bench.command("scontrol", "reconfigure")
        yield
    finally:
        path.write_text(before)
        bench.command("scontrol", "reconfigure")


async def places(bench: PilotBench) -> list[tuple[str, str, str]]:
    """Return what the log has of servers: node, rack, domain; or that one was removed."""
    async with read_log(str(bench.folder / "log.db")) as reader:
        return [
            (
                (str(event.node), event.configuration.rack, event.configuration.domain)
                if isinstance(event, NodeAdded)
                else (str(event.node), "removed", "")
            )
            async for event in reader.events()
            if isinstance(event, NodeAdded | NodeRemoved)
        ]


async def test_racks_are_those_of_slurm_and_change_while_their_servers_are_idle(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told; other ones under a job that runs; once it has left; then nobody to ask.

    The job runs on n1 or n2, whichever of them came first.
    """
    async with served(bench, monkeypatch, "n1", "n2", "n3") as site:
        assert [site.maps[name].place_by for name in (N1, N2, N3)] == ["Slurm"] * 3
        one = await site.submit(worker(bench, "one", 0.1, code=-1, gpus=3), NOBODY)
        gang = worker(bench, "gang", 0.1, gpus=5, max_level=Level.rack)
        two = await site.submit(gang, NOBODY)
        await until(site, lambda: job_of(site, two).phase is JobPhase.running, "the gang runs")
        assert {share.node for share in job_of(site, two).held.shares} == {N1, N2}
        (busy,) = [share.node for share in job_of(site, one).held.shares]
        (idle,) = {N1, N2} - {busy}
        await until(site, lambda: JobId(two) not in site.state.jobs, "the gang has ended")
    moved = (
        f"SwitchName=leaf1 Nodes={busy}\nSwitchName=leaf2 Nodes={idle},n3\n"
        "SwitchName=leaf3 Nodes=n4\n"
        "SwitchName=west Switches=leaf[1-2]\nSwitchName=east Switches=leaf3\n"
        "SwitchName=spine Switches=west,east\n"
    )
    with with_topology(bench.slurm, moved):
        async with served(bench, monkeypatch, "n1", "n2", "n3") as site:
            told = [site.maps[name].place_by for name in (busy, idle, N3)]
            assert told == ["log", "Slurm", "Slurm"]
            (note,) = site.maps[busy].notes
            assert note.startswith("it is in rack leaf1 in west by Slurm: its place of before")
            await site.tell(site.commands.cancel(one, NOBODY))
            await until(site, lambda: not site.state.jobs, "the end of all")
        async with served(bench, monkeypatch, "n1", "n2", "n3") as site:
            assert (site.maps[busy].place_by, site.maps[busy].notes) == ("Slurm", ())
    bench.slurm.stop_slurmctld()
    async with served(bench, monkeypatch, "n1", "n2", "n3") as site:
        assert [site.maps[name].place_by for name in (N1, N2, N3)] == ["log"] * 3
    bench.slurm.start_slurmctld()
    told_in_log = await places(bench)
    assert sorted(told_in_log[:3]) == [
        ("n1", "rack1", ""),
        ("n2", "rack1", ""),
        ("n3", "rack2", ""),
    ]
    assert told_in_log[3:] == [
        (idle, "removed", ""),
        ("n3", "removed", ""),
        (idle, "leaf2", "west"),
        ("n3", "leaf2", "west"),
        (busy, "removed", ""),
        (busy, "leaf1", "west"),
    ]
    assert (await verified(bench.folder)).divergence is None


async def test_racks_of_the_config_count_and_other_ones_of_slurm_are_said(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the mode of batch jobs, which asks as well."""
    given = {"cpus": 4, "rack": "row7"}
    named = ("n1", "n2", "n3")
    async with served(bench, monkeypatch, *named, mode="per-job", sizes=given) as site:
        assert [site.maps[name].place_by for name in (N1, N2, N3)] == ["config"] * 3
        (note,) = site.maps[N3].notes
    assert note.startswith(
        "rack row7 holds n1, n2, n3 by the config, and Slurm has n3 in one (rack2): "
    )
    assert await places(bench) == [(name, "row7", "") for name in named]


def python_with_gpus(folder: Path, topology: str) -> str:
    """Return a Python that finds an nvidia-smi which tells of four GPUs."""
    (folder / "topology").write_text(topology)
    rows = (f"{at}, GPU-{at}, NVIDIA V100, 0000{bus}, 7, 9, 16384" for at, bus in enumerate(BUSES))
    (folder / "gpus").write_text("\n".join(rows) + "\n")
    told = f"then cat {folder}/topology; else cat {folder}/gpus; fi"
    for name, text in (
        ("nvidia-smi", f'if [ "$1" = topo ]; {told}'),
        ("python", f'PATH={folder}:$PATH exec {sys.executable} "$@"'),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder / "python")


async def test_map_that_a_pilot_has_noted_counts_from_the_next_start_on(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then a pilot of which the daemon does not know notes what cannot be."""
    bench.folder.chmod(0o755)
    python = python_with_gpus(bench.folder, table((0, 2), (1, 3)))
    noted = bench.root / "nodes" / "n1" / "wiring"
    pair = worker(bench, "pair", 0.1, gpus=2, max_level=Level.switch)
    crossed = (LevelGroups(Level.switch, (0b0101, 0b1010)),)
    async with served(bench, monkeypatch, "n1", "n2", python=python) as site:
        assert (site.maps[N1].by, site.maps[N1].notes) == ("", ())
        one = await site.submit(worker(bench, "one", 0.1, gpus=4), NOBODY)
        await until(site, noted.exists, "the pilot has noted the wiring")
        await until(site, lambda: one not in site.state.jobs, "the end of the job")
    policy = {"placement": "topology"}
    async with served(bench, monkeypatch, "n1", "n2", python=python, policy=policy) as site:
        assert (site.maps[N1].by, site.maps[N1].notes) == ("nvidia-smi", ())
        assert site.maps[N1].sockets == ()
        assert site.maps[N1].configuration.levels[:1] == crossed
        assert site.maps[N1].configuration.rack == "rack1"
        assert site.maps[N2].by == ""
        two = await site.submit(pair, NOBODY)
        await until(site, lambda: job_of(site, two).since_us is not None, "it has GPUs")
        (share,) = job_of(site, two).held.shares
        assert share.node == N2 or share.gpu_mask in {0b0101, 0b1010}
        await until(site, lambda: two not in site.state.jobs, "the end of the job")
    noted.write_text('{"gpus": 7}')
    async with served(bench, monkeypatch, "n1", "n2", python=python) as site:
        assert (site.maps[N1].by, site.maps[N1].configuration.levels[:1]) == ("log", crossed)
        assert "what a pilot has noted cannot be read" in site.maps[N1].notes[0]
    await assert_all_well(bench)
