"""GPUs that take no jobs: those that are lost, and those that somebody quarantined."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shunter.daemon import Caller
from shunter.errors import NotFoundError, RefusedError
from shunter.events import AllocationChanged, GpuQuarantined, GpuRestored, GpusReleased, NodeName
from tests.live.site.sites import NOBODY, events_until, machine, of, outcome, program, verified
from tests.unit.backends.profiles.test_gpus import compiled

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

ADMIN = Caller("root", None, is_admin=True)
STRANGER = Caller("somebody", None)
N0 = NodeName("n0")


async def test_quarantined_gpu_takes_no_job_until_it_is_released(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        with pytest.raises(RefusedError, match="only admins may drain or restore nodes and"):
            await site.tell(site.commands.quarantine(N0, 1, STRANGER))
        with pytest.raises(NotFoundError, match="no GPU 4: it has 4, counted from 0"):
            await site.tell(site.commands.quarantine(N0, 4, ADMIN))
        with pytest.raises(RefusedError, match="GPU 1 of node n0 is not quarantined"):
            await site.tell(site.commands.release(N0, 1, ADMIN))

        await site.tell(site.commands.quarantine(N0, 1, ADMIN))
        with pytest.raises(RefusedError, match="is quarantined already"):
            await site.tell(site.commands.quarantine(N0, 1, ADMIN))
        server = site.state.cluster.server(N0)
        assert (server.gpus_up, server.quarantine_causes) == (3, {1: "by root"})
        assert await outcome(site, await site.submit(program("pass", gpus=3), NOBODY)) == "finished"
        waiting = await site.submit(program("pass", gpus=4), NOBODY)
        assert site.state.jobs[waiting].attempt == 0

        await site.tell(site.commands.release(N0, 1, ADMIN))
        assert await outcome(site, waiting) == "finished"
        seen = await events_until(site, lambda seen: bool(of(seen, GpuRestored)))
    assert [(fact.gpu, fact.cause) for fact in of(seen, GpuQuarantined)] == [(1, "by root")]
    assert [fact.gpu for fact in of(seen, GpuRestored)] == [1]
    await verified(tmp_path)


async def test_gpu_that_is_lost_on_an_idle_node_is_given_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs there, so no sample is asked for; the readings must be all the same."""
    library, state = compiled(tmp_path), tmp_path / "nvml"
    state.write_text("gpu 0 10 81920\n" * 4 + "fail handle 1 15\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    monkeypatch.setenv("SHUNTER_NVML_STUB", str(state))
    async with machine(tmp_path) as site:
        seen = await events_until(site, lambda seen: bool(of(seen, GpuQuarantined)))
        (fact,) = of(seen, GpuQuarantined)
        assert (fact.node, fact.gpu) == (N0, 1)
        assert fact.cause.startswith("2 readings in a row say: the GPU fell off the bus")

        job_id = await site.submit(program("pass", gpus=3), NOBODY)
        assert await outcome(site, job_id) == "finished"
        granted = of(
            await events_until(site, lambda seen: bool(of(seen, GpusReleased))), AllocationChanged
        )
        assert granted[0].allocation.shares[0].gpu_mask == 0b1101
    await verified(tmp_path)


# What nvidia-smi says of four GPUs one of which fell off the bus.
NVIDIA_SMI = """\
#!/bin/sh
if [ "$1" = topo ]; then exit 15; fi
for number in 0 1 3; do
    echo "$number, GPU-$number, NVIDIA A100, 0000FFFF:4$number:00.0, 0, 4, 81920"
done
echo "Unable to determine the device handle for GPU2: FFFF:42:00.0: GPU is lost.  Reboot the system"
exit 15
"""


@pytest.fixture
def with_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No NVML, and an nvidia-smi that finds a GPU lost."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "nvidia-smi").write_text(NVIDIA_SMI)
    (programs / "nvidia-smi").chmod(0o755)
    (programs / "libnvidia-ml.so.1").write_text("no library")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(programs))


@pytest.mark.usefixtures("with_program")
async def test_init_and_doctor_see_gpus_where_only_nvidia_smi_tells(tmp_path: Path) -> None:
    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "shunter", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    made = run("init", "--local")
    assert (made.returncode, "GPU 2 is lost" in made.stderr) == (0, True)
    assert "\ngpus = 4\n" in (tmp_path / "shunter.toml").read_text()
    findings = json.loads(run("doctor", "shunter.toml", "--json").stdout)["findings"]
    (found,) = [one for one in findings if one["subject"] == "gpus"]
    assert (found["state"], found["what"]) == ("bad", "GPU 2 is lost")


@pytest.mark.usefixtures("with_program")
async def test_gpu_that_only_nvidia_smi_finds_lost_is_given_to_nobody(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        seen = await events_until(site, lambda seen: bool(of(seen, GpuQuarantined)))
        assert [(fact.node, fact.gpu) for fact in of(seen, GpuQuarantined)] == [(N0, 2)]
        assert await outcome(site, await site.submit(program("pass", gpus=3), NOBODY)) == "finished"
    await verified(tmp_path)
