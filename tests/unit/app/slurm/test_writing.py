"""`shunter init --slurm` and `[backend.slurm]`: what is written of what Slurm has told."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.backends.node import withdraw
from shunter.backends.slurm import Slurm, read_nodes, read_partitions, read_switches
from shunter.cli import app
from shunter.config import LoadedConfig, load_config, make_config
from shunter.daemon import (
    CRYPTOGRAPHY_LEAST,
    Place,
    check_served,
    keep_mode,
    places_in,
    slurm as serving,
)
from shunter.errors import ConfigError, SlurmUnknownError, UsageError
from shunter.events import JobId
from shunter.ops import (
    Looked,
    SlurmInventory,
    discovered,
    ending,
    scheduling,
    slurm,
    slurm_site as writing,
)
from tests.unit.backends.slurm.recorded import recorded

SWITCHES = (
    "SwitchName=rack1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=rack2 Level=0 Nodes=n[3-4]\n"
)


def found(switches: str = "", version: str = "22.05") -> SlurmInventory:
    """Return what the recorded cluster tells."""
    return SlurmInventory(
        version="22.05.8",
        settings={"ClusterName": "lab"},
        partitions=read_partitions(recorded("22.05", "partitions.txt")),
        nodes=read_nodes(recorded(version, "nodes.txt")),
        switches=read_switches(switches),
        reservations=(),
    )


def written(
    monkeypatch: pytest.MonkeyPatch, told: SlurmInventory, account: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """Return the config of a cluster that tells so, and what is said of it."""

    async def answer(_: Slurm) -> SlurmInventory:
        return told

    monkeypatch.setattr(writing, "inventory", answer)
    text, notes = writing.slurm_config(Slurm(), "main", root="/shared/runs", account=account)
    return tomllib.loads(text), notes


def test_equal_nodes_are_one_group_with_what_slurm_gives_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, _ = written(monkeypatch, found())
    assert config["cluster"]["nodes"] == [
        {"name": "n[1-2]", "gpus": 4, "type": "v100", "cpus": 16, "memory_gb": 64},
        {"name": "n3", "gpus": 4, "type": "p100", "cpus": 16, "memory_gb": 64},
        {"name": "n4", "gpus": 8, "type": "k80", "cpus": 16, "memory_gb": 64},
    ]
    assert make_config(config).config.cluster.gpus == 20


def test_lowest_switch_is_the_rack_and_one_above_it_the_domain() -> None:
    above = "SwitchName=west Level=1 Switches=rack1\nSwitchName=east Level=1 Switches=rack2\n"
    for switches, domain in ((SWITCHES, ""), (SWITCHES + above, "west")):
        told = found(switches)
        first, *_ = discovered(told, told.partition("main")).kinds
        assert (first.rack, first.domain) == ("rack1", domain)


def test_node_on_two_of_the_lowest_switches_has_no_rack() -> None:
    twice = SWITCHES + "SwitchName=other Level=0 LinkSpeed=1 Nodes=n2\n"
    assert places_in(read_switches(twice)) == {
        "n1": Place("rack1"),
        "n3": Place("rack2"),
        "n4": Place("rack2"),
    }


def test_block_is_a_rack() -> None:
    blocks = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
    assert places_in(read_switches(blocks)) == {"n1": Place("b1"), "n2": Place("b1")}


def test_node_out_of_service_stays_in_the_config_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, notes = written(monkeypatch, found())
    (note,) = notes
    assert note.startswith("n4 takes no jobs now (mixed+drain: a fan is broken State=IDLE); ")


def test_nodes_that_a_config_cannot_hold_are_left_out_and_named() -> None:
    told = found(version="24.11")
    plain = replace(told.nodes[0], name="c1", gpus={})
    nodes = ("gpu01", "gpu02", "gpu03", "c1")
    partition = replace(told.partitions[0], nodes=nodes)
    servers = discovered(replace(told, nodes=(*told.nodes, plain)), partition)
    kinds = {kind.gpu_type: (names, kind.sockets) for kind, names in servers.kinds.items()}
    assert kinds == {"h100": (["gpu01"], 2), "gpu": (["gpu03"], 2)}
    assert servers.notes[:2] == [
        "left out: gpu02: GPUs of several types (1g.10gb, a100), and [cluster] holds one",
        "left out: c1: without GPUs that Slurm knows (GRES)",
    ]
    with pytest.raises(UsageError, match="no server that a config could hold; left out: c1"):
        discovered(replace(told, nodes=(plain,)), partition)


def test_partition_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="no partition 'gpu': expected one of main, shared"):
        found().partition("gpu")


def test_time_limit_is_never_longer_than_that_of_the_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def limit(seconds: int | None) -> str:
        told = found()
        main = replace(told.partitions[0], time_limit_s=seconds)
        config, _ = written(monkeypatch, replace(told, partitions=(main,)), account="lab")
        assert config["backend"]["slurm"]["account"] == "lab"
        return str(config["backend"]["slurm"]["time_limit"])

    assert [limit(one) for one in (None, 1_800, 172_800)] == ["1d", "30m", "1d"]


def test_cluster_that_does_not_answer_is_unreachable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def silent(_: Slurm) -> SlurmInventory:
        raise SlurmUnknownError("squeue cannot reach slurmctld", "look at `scontrol ping`")

    monkeypatch.setattr(writing, "inventory", silent)
    out = tmp_path / "shunter.toml"
    result = CliRunner().invoke(app, ["init", "--slurm", "main", "--out", str(out)])
    assert result.exit_code == 4
    assert "squeue cannot reach slurmctld; look at" in result.output
    assert not out.exists()


def test_root_lies_beside_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written(monkeypatch, found())  # installs the answer
    text, _ = writing.slurm_config(Slurm(), "main", root="runs")
    (tmp_path / "shunter.toml").write_text(text)
    section = load_config(tmp_path / "shunter.toml", environ={}).config.backend.slurm
    assert section is not None
    assert section.root == str(tmp_path / "runs")
    assert section.mode == "pilot"


def config_with(**slurm: object) -> LoadedConfig:
    """Return a config with a table [backend.slurm]."""
    table = {"root": "runs", "partition": "main", **slurm}
    return make_config(
        {
            "cluster": {"nodes": [{"name": "n1", "gpus": 4}]},
            "backend": {"kind": "slurm", "slurm": table},
            "log": {"url": "log.db"},
        }
    )


PILOT = "nodes/n1/clusters/lab/jobs/j0/1/started"
J0 = [(JobId("j0"), 1)]


def noted(root: Path, *records: str) -> None:
    """Write records of attempts, as supervisors and orders leave them."""
    for record in records:
        (root / record).parent.mkdir(parents=True, exist_ok=True)
        (root / record).write_text("{}")


@pytest.mark.parametrize(
    ("before", "after", "record"),
    [("per-job", "pilot", "jobs/j0/1/order"), ("pilot", "per-job", PILOT)],
)
def test_mode_does_not_change_under_attempts_that_may_run(
    tmp_path: Path, before: str, after: str, record: str
) -> None:
    for _ in range(2):
        keep_mode(str(tmp_path), before, J0)
    noted(tmp_path, record)
    with pytest.raises(ConfigError, match=f"attempt j0/1 of mode '{before}' has not ended"):
        keep_mode(str(tmp_path), after, J0)
    noted(tmp_path, f"{record.rpartition('/')[0]}/status")
    for mode in (after, before):
        keep_mode(str(tmp_path), mode, J0)


def test_attempt_that_is_lost_by_the_log_keeps_no_mode(tmp_path: Path) -> None:
    """It leaves no status, for ever; and its job may have begun anew since, or be over."""
    keep_mode(str(tmp_path), "per-job", [])
    noted(tmp_path, "jobs/j0/1/order", "jobs/j0/2/order", "jobs/j0/2/status")
    for mode, held in (("pilot", [(JobId("j0"), 2)]), ("per-job", [])):
        keep_mode(str(tmp_path), mode, held)
        assert json.loads((tmp_path / "mode").read_text())["mode"] == mode


def test_root_of_an_earlier_version_is_one_of_pilots(tmp_path: Path) -> None:
    (tmp_path / "pilots").mkdir()
    noted(tmp_path, PILOT)
    with pytest.raises(ConfigError, match="of mode 'pilot' has not ended"):
        keep_mode(str(tmp_path), "per-job", J0)
    keep_mode(str(tmp_path), "pilot", [])


def test_what_was_withdrawn_runs_in_no_mode(tmp_path: Path) -> None:
    keep_mode(str(tmp_path), "per-job", [])
    folder = tmp_path / "jobs/j0/1"
    folder.mkdir(parents=True)
    assert withdraw(str(folder))
    noted(tmp_path, "jobs/j0/1/order")
    keep_mode(str(tmp_path), "pilot", J0)


def test_mode_whose_library_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_served(config_with().config.backend)
    monkeypatch.setattr(serving, "find_spec", lambda name: None)
    check_served(config_with(mode="per-job").config.backend)
    with pytest.raises(ConfigError, match="needs cryptography"):
        check_served(config_with().config.backend)


def test_library_that_is_too_old_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "version", lambda name: "38.0.4")
    check_served(config_with(mode="per-job").config.backend)
    with pytest.raises(ConfigError, match=r"cryptography 46 or later, and 38\.0\.4 is installed"):
        check_served(config_with().config.backend)
    monkeypatch.setenv("PATH", str(tmp_path))  # no Slurm: doctor asks nobody
    library, commands = slurm(Looked(config_with()))
    assert (library.state, commands.state) == ("bad", "bad")
    assert "38.0.4 is installed" in library.what
    assert "pip install 'shunter[slurm]'" in library.mend


def test_library_is_refused_below_what_the_extra_asks_for() -> None:
    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"cryptography>={CRYPTOGRAPHY_LEAST}" in extras["slurm"]


@pytest.mark.parametrize(
    ("mode", "cpus", "told"),
    [
        ("per-job", 8, ["space_sharing"]),
        ("per-job", 0, ["space_sharing", "no cpus of n1 and 1 more"]),
        ("pilot", 0, []),
    ],
)
def test_start_says_what_slurm_will_not_do_for_a_policy_that_packs(
    mode: str, cpus: int, told: list[str], tmp_path: Path
) -> None:
    """It is a warning: the policy's plans are carried out all the same, GPUs apart."""
    path = tmp_path / "shunter.toml"
    path.write_text(
        '[[cluster.nodes]]\nname = "n[1-2]"\ngpus = 4\ntype = "v100"\n'
        f"cpus = {cpus}\n"
        '[policy]\nname = "gavel"\nparams.gavel.space_sharing = true\n'
        '[workload]\nthroughputs = "builtin:gavel"\n'
        '[backend]\nkind = "slurm"\nslurm.root = "runs"\nslurm.partition = "main"\n'
        f'slurm.mode = "{mode}"\n[log]\nurl = "log.db"\n'
    )
    done = CliRunner().invoke(app, ["config", "validate", str(path)])
    assert done.exit_code == 0, done.output
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == len(told)
    for part, line in zip(told, warnings, strict=True):
        assert part in line


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("sched/backfill", []),
        ("sched/builtin", ["Slurm schedules by builtin"]),
        ("", ["Slurm schedules by a way that it does not tell"]),
    ],
)
def test_doctor_names_a_scheduler_of_slurm_that_starts_no_job_of_several_parts(
    kind: str, said: list[str]
) -> None:
    told = replace(found(), settings={"SchedulerType": kind})
    assert [finding.what for finding in scheduling(told)] == said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ProctrackType": "proctrack/linuxproc"}, ["ProctrackType is linuxproc"]),
        ({"ProctrackType": "proctrack/cgroup"}, []),
        ({"ProctrackType": "proctrack/cgroup", "SignalChildrenProcesses": "no"}, []),
        (
            {"ProctrackType": "proctrack/cgroup", "SignalChildrenProcesses": "yes"},
            ["SignalChildrenProcesses"],
        ),
        ({"ProctrackType": "proctrack/pgid"}, []),
        ({}, []),
    ],
)
def test_doctor_says_where_sigterm_reaches_the_programs_of_jobs(
    settings: dict[str, str], said: list[str]
) -> None:
    what = [finding.what for finding in ending(replace(found(), settings=settings))]
    assert what == [f"scancel sends SIGTERM to programs of jobs, too ({each})" for each in said]


def test_nodes_with_instances_of_mig_alone_are_kept_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = found()
    first, *others = told.nodes
    instances = replace(first, gpus={"1g.10gb": 7})
    config, notes = written(monkeypatch, replace(told, nodes=(instances, *others)))
    assert next((each["type"], each["gpus"]) for each in config["cluster"]["nodes"]) == (
        "1g.10gb",
        7,
    )
    said = "n1: 1g.10gb are MIG instances, on which jobs of one GPU run alone"
    assert said in notes
