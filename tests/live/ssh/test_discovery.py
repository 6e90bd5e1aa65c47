"""`init --ssh` and `doctor` against real hosts, with drivers and a clock that we made up."""

import os
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.backends.live import HostInventory, host_inventories
from shunter.cli import app
from shunter.config import load_config
from shunter.core import AttemptExited, Terminate
from shunter.events import ProfileSampled
from shunter.ops import ssh_hosts as checks
from tests.factories import job_id
from tests.live.ssh.bench import Bench, order, seen_until
from tests.live.ssh.faults.test_clocks import an_hour_late
from tests.unit.backends.profiles.test_gpus import compiled

pytestmark = [pytest.mark.live, pytest.mark.ssh]

# What nvidia-smi prints on a server of four GPUs, two on each switch and joined by NVLink.
NVIDIA_SMI = """#!/bin/sh
if [ "$1" = topo ]; then
    printf '\\tGPU0\\tGPU1\\tGPU2\\tGPU3\\tCPU Affinity\\tNUMA Affinity\\n'
    printf 'GPU0\\t X \\tNV4\\tSYS\\tSYS\\t0-15\\t0\\nGPU1\\tNV4\\t X \\tSYS\\tSYS\\t0-15\\t0\\n'
    printf 'GPU2\\tSYS\\tSYS\\t X \\tNV4\\t16-31\\t1\\nGPU3\\tSYS\\tSYS\\tNV4\\t X \\t16-31\\t1\\n'
    printf '\\nLegend:\\n  X = Self\\n'
else
    for number in 0 1 2 3; do
        echo "$number, GPU-00$number, NVIDIA A100-SXM4-80GB, 00000000:0$number:00.0, 7, 9, 81920"
    done
fi
"""


# The same two GPUs as NVML tells of them, to who asks the stub of it.
NVML = """\
gpu 80 4000 81920
gpu 0 10 81920
named 0 00000000:41:00.0 NVIDIA A100-SXM4-80GB
named 1 00000000:42:00.0 NVIDIA A100-SXM4-80GB
"""


@pytest.fixture
def with_gpus(bench: Bench) -> Bench:
    """A farm whose hosts find an nvidia-smi in their path."""
    for host in bench.farm.hosts.values():
        programs = host.folder / "bin"
        programs.mkdir()
        (programs / "nvidia-smi").write_text(NVIDIA_SMI)
        (programs / "nvidia-smi").chmod(0o755)
        host.noisy(f"PATH={programs}:$PATH\n")
    return bench


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def with_library(bench: Bench, library: Path) -> Bench:
    """A farm whose hosts find an NVML that reads `nvml` in their folders, and no nvidia-smi."""
    for host in bench.farm.hosts.values():
        host.noisy(
            f"export LD_LIBRARY_PATH={library.parent} SHUNTER_NVML_STUB={host.folder}/nvml\n"
        )
        (host.folder / "nvml").write_text(NVML)
    return bench


def targets(bench: Bench) -> str:
    hosts = bench.farm.hosts.values()
    return ",".join(f"{bench.farm.user}@{host.address}:{host.port}" for host in hosts)


def init(bench: Bench, *arguments: str) -> tuple[int, str, Path]:
    """Write a config for all hosts; return exit code, what was said, and where it lies."""
    for folder in (bench.folder, bench.farm.folder):
        folder.chmod(0o711)  # root starts jobs as their users, who must get there
    path = bench.folder / "shunter.toml"
    access = ["--key", str(bench.farm.key), "--known-hosts", str(bench.farm.known_hosts)]
    command = [
        "init",
        "--ssh",
        targets(bench),
        *access,
        "--python",
        sys.executable,
        "-o",
        str(path),
    ]
    ran = CliRunner().invoke(app, [*command, *arguments])
    return ran.exit_code, ran.output + str(ran.exception or ""), path


def test_init_writes_a_config_of_what_the_hosts_have(with_gpus: Bench) -> None:
    code, said, path = init(with_gpus)
    assert code == 0, said
    found = tomllib.loads(path.read_text())
    nodes = found["cluster"]["nodes"]
    assert [(node["gpus"], node["type"], node["nvlink"]) for node in nodes] == [
        (4, "a100", [[0, 1], [2, 3]])
    ] * 3
    hosts = found["backend"]["ssh"]["hosts"]
    assert {tuple(host["gpus"]) for host in hosts.values()} == {
        ("GPU-000", "GPU-001", "GPU-002", "GPU-003")
    }
    assert load_config(path).config.cluster.gpus == 12


def test_init_writes_what_nvml_tells_where_there_is_no_program(with_library: Bench) -> None:
    code, said, path = init(with_library)
    assert code == 0, said
    found = tomllib.loads(path.read_text())
    nodes = found["cluster"]["nodes"]
    assert [(node["gpus"], node["type"]) for node in nodes] == [(2, "a100")] * 3
    hosts = found["backend"]["ssh"]["hosts"]
    assert {tuple(host["gpus"]) for host in hosts.values()} == {("GPU-stub-0", "GPU-stub-1")}


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (NVML + "fail memory 1 15\n", "GPU 1 is lost; the GPU fell off the bus"),
        (NVML + "fail uuid 0 15\n", "GPU 0 is lost; the GPU fell off the bus"),
        (
            NVML + "fail utilisation 0 3\nfail utilisation 1 3\n",
            "GPU 0, 1 does not tell: utilisation; this GPU does not offer the reading",
        ),
        ("fail init 0 18\n", "driver and library differ: reload the driver"),
        ("fail init 0 9\n", "the NVIDIA driver is installed but not loaded"),
        ("fail init 0 999\n", "NVML failed in a way that it does not explain"),
    ],
    ids=["lost", "gone", "lame", "mismatch", "unloaded", "unknown"],
)
def test_doctor_says_what_is_wrong_with_gpus(with_library: Bench, state: str, told: str) -> None:
    _, _, path = init(with_library)
    (with_library.farm["n1"].folder / "nvml").write_text(state)
    described = load_config(path).config.cluster.servers()[1][1]
    gpus = ("GPU-stub-0", "GPU-stub-1")
    (found,) = host_inventories(
        (replace(with_library.host("n1"), gpus=gpus),), with_library.settings().access, 5.0
    )
    findings = [f"{each.what}; {each.mend}" for each in checks.findings_of(found, described)]
    assert any(told in finding for finding in findings), findings


def test_doctor_says_by_whom_gpus_are_seen(with_library: Bench) -> None:
    (found,) = host_inventories((with_library.host("n0"),), with_library.settings().access, 5.0)
    assert checks.summary(found).startswith("2 GPUs by NVML, ")


def test_doctor_of_far_hosts_does_not_ask_this_machine_for_gpus(with_library: Bench) -> None:
    """It has none, and they have six: that is no fault."""
    _, _, path = init(with_library)
    ran = CliRunner().invoke(app, ["doctor", str(path)])
    assert "GPUs in the config" not in ran.output
    assert "NVML cannot be read" not in ran.output


@pytest.mark.asyncio
async def test_jobs_are_sampled_with_the_gpus_of_their_host(with_library: Bench) -> None:
    async with with_library.opened(hosts=(with_library.host("n0"),)) as backend:
        await order(backend, with_library.launching("n0", mask=1))
        told = await seen_until(backend, ProfileSampled)
        await order(backend, Terminate(job_id(0), 1))
        await seen_until(backend, AttemptExited)
    (sample,) = [seen for seen in told if isinstance(seen, ProfileSampled)]
    assert (sample.gpu_utilisation, sample.gpu_memory_mb) == (0.8, 4000)
    assert sample.memory_mb is not None


def test_init_leaves_out_a_host_that_does_not_answer_and_says_so(bench: Bench) -> None:
    bench.farm.stop("n1")
    code, said, path = init(bench)
    assert code == 0, said
    assert "left out: host" in said
    assert "is sshd running on port" in said
    assert len(tomllib.loads(path.read_text())["cluster"]["nodes"]) == 2


def test_init_without_any_host_fails_as_unreachable(bench: Bench) -> None:
    for name in bench.farm.hosts:
        bench.farm.stop(name)
    code, said, path = init(bench)
    assert code == 4, said
    assert not path.exists()


def test_doctor_finds_hosts_of_a_written_config_well(with_gpus: Bench) -> None:
    _, _, path = init(with_gpus)
    ran = CliRunner().invoke(app, ["doctor", str(path)])
    for host in with_gpus.farm.hosts.values():
        first, *others = [line for line in ran.output.splitlines() if host.address in line]
        assert first.startswith("ok")
        assert "4 GPUs" in first
        assert all("not held to their memory" in line for line in others)


def test_doctor_names_the_host_that_is_down_and_the_one_with_another_key(with_gpus: Bench) -> None:
    _, _, path = init(with_gpus)
    with_gpus.farm.stop("n0")
    with_gpus.farm.trust("n0", "n1")
    ran = CliRunner().invoke(app, ["doctor", str(path)])
    assert ran.exit_code == 1
    assert "refuses connections" in ran.output
    assert "shows a key that is not in" in ran.output
    assert "ssh-keyscan" in ran.output


def test_clock_of_a_host_that_is_an_hour_off_is_told_and_harms_nobody(bench: Bench) -> None:
    """A Python that starts with its clock shifted stands for a host whose clock is wrong."""
    (found,) = host_inventories((an_hour_late(bench, "n0"),), bench.settings().access, 5.0)
    assert found.found is not None, found.cause
    assert found.ahead_s == pytest.approx(-3600, abs=5)
    described = load_config(written(bench)).config.cluster.servers()[0][1]
    told = [each.what for each in checks.findings_of(found, described)]
    assert f"its clock is {-found.ahead_s:.0f} s behind ours" in told


def written(bench: Bench) -> Path:
    code, said, path = init(bench, "--force")
    assert code == 0, said
    return path


def test_host_without_room_or_lingering_sessions_is_told_so(bench: Bench) -> None:
    (found,) = host_inventories((bench.host("n0"),), bench.settings().access, 5.0)
    assert found.found is not None
    poor = HostInventory(found.host, {**found.found, "free_mb": 1, "ends_sessions": True})
    described = load_config(written(bench)).config.cluster.servers()[0][1]
    told = {finding.what: finding.mend for finding in checks.findings_of(poor, described)}
    assert any(what.startswith("1 MB are free") for what in told)
    assert any("enable-linger" in mend for mend in told.values())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts jobs as their users")
def test_doctor_of_root_wants_a_base_that_users_can_pass_through(bench: Bench) -> None:
    path = written(bench)
    bench.farm.folder.chmod(0o700)
    ran = CliRunner().invoke(app, ["doctor", str(path)])
    assert "who cannot pass through" in ran.output
    assert "/var/lib/shunter" in ran.output
