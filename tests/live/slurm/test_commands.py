"""The port to Slurm, against a real cluster: what it reads, and what it makes of failures."""

import os
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shunter.backends.slurm import Slurm, expanded
from shunter.errors import SlurmRefusedError, SlurmUnknownError
from tests.live.slurm.bench import NODES, SEARCHED, SlurmBench

pytestmark = [
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.asyncio,
]
SLEEP = "#!/bin/sh\nexec sleep 300\n"
QUIET = ("--output=/dev/null", "--time=5", "--no-requeue")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be a user without any rights for a while."""
    nobody = pwd.getpwnam("nobody")
    os.setresgid(nobody.pw_gid, nobody.pw_gid, 0)
    os.setresuid(nobody.pw_uid, nobody.pw_uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)


@pytest.fixture
def port(slurm: SlurmBench, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    """The port, in an environment that people have set for themselves."""
    monkeypatch.setenv("PATH", SEARCHED)
    monkeypatch.setenv("SQUEUE_STATES", "FAILED")
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SBATCH_PARTITION", "nowhere")
    return Slurm(conf=str(slurm.conf))


async def test_submitted_job_is_found_in_the_queue(slurm: SlurmBench, port: Slurm) -> None:
    before_s = int(time.time())
    asked = ("--job-name=shunter:lab:j1.a1", "--gres=gpu:v100:2", "--nodelist=n2", "--comment=x=y")
    job = await port.submit(SLEEP, [*QUIET, *asked])
    slurm.wait_for(lambda: slurm.state_of(job) == "RUNNING", "a running job")
    (found,) = [one for one in await port.queue() if one.id == job]
    assert found.name == "shunter:lab:j1.a1"
    assert (found.state, found.nodes, found.user) == ("RUNNING", ("n2",), "root")
    assert found.time_limit_s == 300
    assert found.submit_s is not None
    assert before_s <= found.submit_s <= time.time()
    (node,) = [one for one in await port.nodes() if one.name == "n2"]
    assert node.gpus_used_indices == {"v100": (0, 1)}
    await port.cancel([job])
    slurm.wait_for(lambda: slurm.state_of(job) == "CANCELLED", "the end of the job")


async def test_name_with_a_line_break_makes_no_second_job(slurm: SlurmBench, port: Slurm) -> None:
    name = "x\n99999=JobID\n88888"
    job = await port.submit(SLEEP, [*QUIET, f"--job-name={name}"])
    recent = [one for one in await port.queue() if one.id >= job]
    assert [one.name for one in recent] == [name]


async def test_signal_reaches_a_batch_script(slurm: SlurmBench, port: Slurm) -> None:
    ready = slurm.folder / "out" / "ready"
    script = f"#!/bin/sh\ntrap 'exit 7' USR1\ntouch {ready}\nwhile :; do sleep 0.05; done\n"
    job = await port.submit(script, QUIET)
    slurm.wait_for(ready.exists, "a trap in the script")
    await port.cancel([job], signal="USR1", batch_only=True)
    slurm.wait_for(lambda: slurm.state_of(job) == "FAILED", "the end of the job")
    assert "ExitCode=7:0" in slurm.command("scontrol", "show", "job", str(job))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--gres=gpu:99",), id="too many GPUs"),
        pytest.param(("--partition=nowhere",), id="no such partition"),
        pytest.param(("--gres=gpu:h100:1",), id="no such type"),
        pytest.param(("--nodelist=n9",), id="no such node"),
        pytest.param(("--no-such-option",), id="no such option"),
    ],
)
async def test_what_slurm_refuses_is_refused(port: Slurm, options: tuple[str, ...]) -> None:
    with pytest.raises(SlurmRefusedError):
        await port.submit(SLEEP, [*QUIET, *options])
    with pytest.raises(SlurmRefusedError):
        await port.would_take([*QUIET, *options])


async def test_trial_says_when_a_job_could_start_and_leaves_none(port: Slurm) -> None:
    before = {job.id for job in await port.queue()}
    assert "to start at" in await port.would_take([*QUIET, "--gres=gpu:k80:1"])
    assert {job.id for job in await port.queue()} == before


async def test_job_that_is_not_there_is_cancelled_without_a_word(port: Slurm) -> None:
    before = await port.queue()
    await port.cancel([999_999])
    assert {job.id for job in await port.queue()} == {job.id for job in before}


async def test_drained_node_is_told_with_its_reason(slurm: SlurmBench, port: Slurm) -> None:
    slurm.drain("n4", "a fan = broken State=IDLE")
    (node,) = [one for one in await port.nodes() if one.name == "n4"]
    assert not node.is_in_service
    assert node.reason == "a fan = broken State=IDLE"


async def test_reservation_for_maintenance_is_seen(slurm: SlurmBench, port: Slurm) -> None:
    assert await port.reservations() == ()
    words = ("StartTime=now+60minutes", "Duration=30", "Users=root", "Nodes=n[1-2]", "Flags=MAINT")
    slurm.command("scontrol", "create", "reservation", "ReservationName=cooling", *words)
    try:
        (found,) = await port.reservations()
    finally:
        slurm.command("scontrol", "delete", "ReservationName=cooling")
    assert (found.name, found.nodes, found.is_maintenance) == ("cooling", ("n1", "n2"), True)
    assert found.start_s is not None
    assert found.end_s == found.start_s + 1800


async def test_partitions_switches_and_settings_are_read(slurm: SlurmBench, port: Slurm) -> None:
    found = {one.name: one for one in await port.partitions()}
    assert found["main"].nodes == ("n1", "n2", "n3", "n4")
    assert (found["short"].time_limit_s, found["closed"].state) == (1800, "DOWN")
    leaves = {one.name: one.nodes for one in await port.switches() if not one.level}
    assert leaves == {"rack1": ("n1", "n2"), "rack2": ("n3", "n4")}
    assert (await port.settings())["ClusterName"] == "bench"
    await port.ping()
    assert (await port.version())[:3].replace(".", "").isdigit()


async def test_controller_that_is_down_makes_everything_unknown(slurm: SlurmBench) -> None:
    hasty = Slurm(conf=str(slurm.conf), deadline_s=1.5)
    slurm.kill_slurmctld()
    began_s = time.monotonic()
    for ask in (hasty.queue, hasty.nodes, hasty.ping):
        with pytest.raises(SlurmUnknownError):
            await ask()
    with pytest.raises(SlurmUnknownError):
        await hasty.submit(SLEEP, QUIET)
    with pytest.raises(SlurmUnknownError):
        await hasty.cancel([1])
    assert time.monotonic() - began_s < 15.0
    slurm.start_slurmctld()
    await hasty.ping()


async def test_accounting_that_is_not_kept_is_unknown_not_empty(port: Slurm) -> None:
    with pytest.raises(SlurmUnknownError, match="accounting"):
        await port.history(0)


async def test_commands_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SlurmUnknownError, match="squeue is not there; install"):
        await Slurm().queue()


async def test_any_user_may_do_all_of_it(slurm: SlurmBench, port: Slurm) -> None:
    await port.ping()  # whatever is imported late lies where only root may read
    with as_nobody():
        job = await port.submit(SLEEP, [*QUIET, "--gres=gpu:k80:1", "--chdir=/"])
        (found,) = [one for one in await port.queue() if one.id == job]
        assert len(await port.nodes()) == len(NODES)
        assert {one.name for one in await port.partitions()} == {"main", "short", "closed"}
        assert (await port.reservations(), len(await port.switches())) == ((), 3)
        assert (await port.settings())["ClusterName"] == "bench"
        await port.would_take([*QUIET, "--gres=gpu:1"])
        await port.cancel([job])
    assert found.user == "nobody"
    slurm.wait_for(lambda: slurm.state_of(job) == "CANCELLED", "the end of the job")


async def test_job_of_another_user_cannot_be_cancelled(slurm: SlurmBench, port: Slurm) -> None:
    job = await port.submit(SLEEP, QUIET)
    with as_nobody(), pytest.raises(SlurmUnknownError, match="denied"):
        await port.cancel([job])
    assert slurm.state_of(job) in {"PENDING", "RUNNING"}


async def test_hostlists_are_expanded_as_slurm_does(slurm: SlurmBench) -> None:
    for hostlist in ("n[1-3,7]", "n[08-10]", "b[2,1],a", "r[1-2]n[01-02]", "gpu[099-101],x"):
        told = slurm.command("scontrol", "show", "hostnames", hostlist).split()
        assert list(expanded(hostlist)) == told
