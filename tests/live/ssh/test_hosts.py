"""What happens on hosts: helpers killed, disks full, other users, two schedulers."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from shunter.api import in_time_order, unsure_line
from shunter.backends.node import attempts
from shunter.core import AttemptExited, Fence, Launch, SuspendAttempt, Terminate
from shunter.errors import BackendError
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    JobSpec,
    LaunchFailed,
    NodeName,
    NodeReachable,
    NodeUnreachable,
    UserName,
)
from tests.factories import allocation, job_id
from tests.faults.supervised import wait_for
from tests.live.ssh.bench import Bench, kinds, order, rest, seen_until
from tests.live.ssh.farm import descendants

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

J0 = job_id(0)


def helpers_of(bench: Bench, name: str) -> list[int]:
    """Return the processes of conversations on a host."""
    process = bench.farm[name].process
    assert process is not None
    found = []
    for pid in descendants(process.pid):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
        if b"serve" in words and "sshd" in Path(f"/proc/{parent}/comm").read_text():
            found.append(pid)
    return found


async def test_killed_helper_is_replaced_and_no_job_notices(bench: Bench) -> None:
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0", work_s=30.0))
        await seen_until(backend, AttemptStarted)
        (helper,) = helpers_of(bench, "n0")
        os.kill(helper, signal.SIGKILL)
        await order(backend, SuspendAttempt(J0, 1))
        told = await seen_until(backend, GpusReleased)
        assert AttemptLost not in kinds(told)
        assert helpers_of(bench, "n0") not in ([], [helper])
    bench.assert_nothing_twice()


async def test_scheduler_of_another_cluster_is_refused(bench: Bench) -> None:
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0"))
        await seen_until(backend, AttemptStarted)
        with pytest.raises(BackendError, match=r"n[012] is another scheduler's: the cluster lab"):
            async with bench.opened(cluster_id="other"):
                pass
        assert await rest(backend) == []
    bench.assert_nothing_twice()


async def test_two_schedulers_that_start_at_once_do_not_share_hosts(bench: Bench) -> None:
    """At most one gets all hosts; the other, or both where each got some, go away."""
    ruled: list[str] = []

    async def rules(cluster: str) -> None:
        try:
            async with bench.opened(cluster_id=cluster, holder=cluster) as backend:
                ruled.append(cluster)
                await order(backend, bench.launching("n0", "n1", "n2", job=cluster, work_s=0.5))
                await seen_until(backend, AttemptExited)
        except BackendError as error:
            assert "is another scheduler's" in str(error)  # noqa: PT017  one of the two

    async with anyio.create_task_group() as both:
        both.start_soon(rules, "lab")
        both.start_soon(rules, "other")
    print(f"schedulers that ruled: {ruled}")
    assert len(ruled) <= 1
    bench.assert_nothing_twice()
    assert sum(bench.runs().values()) == 3 * len(ruled)


async def test_two_hosts_with_one_folder_are_refused_and_told_why(bench: Bench) -> None:
    """As with a home that both mount: what one says there must not count for the other."""
    shared = replace(bench.host("n1"), base=bench.host("n0").base)
    with pytest.raises(BackendError, match=r"host n[01] is another host's: .*name another, base ="):
        async with bench.opened(hosts=(bench.host("n0"), shared)):
            pass


async def test_scheduler_with_a_copy_of_the_log_is_refused(bench: Bench) -> None:
    async with bench.opened() as backend:
        with pytest.raises(BackendError, match="a scheduler with a copy of this log"):
            async with bench.opened(holder="the copy"):
                pass
        assert await rest(backend, 0.5) == []


async def test_newer_scheduler_takes_over_and_the_older_one_stops(bench: Bench) -> None:
    with pytest.raises(ExceptionGroup) as stopped:
        await replaced(bench)
    assert "term 2 rules here" in str(stopped.value.exceptions[0])
    bench.assert_nothing_twice()


async def replaced(bench: Bench) -> None:
    """Let a scheduler work until a newer one has ended its job, and it hears of that."""
    async with bench.opened() as older:
        await order(older, bench.launching("n0", work_s=30.0))
        await seen_until(older, AttemptStarted)
        async with bench.opened(2) as newer:
            found = await newer.inventory()
            assert [(one["job"], one["state"]) for one in found] == [("j0", "running")]
            newer.adopt(J0, 1, started=True)
            await order(newer, Terminate(J0, 1))
            await seen_until(newer, AttemptExited)
        await anyio.sleep(20)


async def test_what_runs_and_nobody_knows_of_is_ended_by_a_fence(bench: Bench) -> None:
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0", "n1"))
        await seen_until(backend, AttemptStarted)
    async with bench.opened(2) as backend:
        assert [one["state"] for one in await backend.inventory()] == ["running"]
        await order(backend, Fence(J0, 1))
        await waits_for(lambda: all(is_over(bench, name) for name in ("n0", "n1")), "its end")
        assert await rest(backend, 0.5) == []


def is_over(bench: Bench, name: str) -> bool:
    """Say whether nothing runs on a host any more."""
    root = bench.farm[name].root / "clusters/lab"
    return all(each["state"] != "running" for each in attempts.inventory(str(root)))


async def waits_for(look: Callable[[], object], what: str) -> None:
    """Wait beside the backend, which must be able to go on meanwhile."""
    await anyio.to_thread.run_sync(lambda: wait_for(look, what))


async def test_end_while_nobody_looked_is_told_once_with_its_instant(bench: Bench) -> None:
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0", work_s=0.3))
        await seen_until(backend, AttemptStarted)
    await waits_for(lambda: is_over(bench, "n0"), "its end")
    async with bench.opened(2) as backend:
        assert [one["state"] for one in await backend.inventory([(J0, 1)])] == ["ended"]
        backend.adopt(J0, 1, started=True)
        told = await seen_until(backend, AttemptExited)
        assert kinds(told) == [AttemptExited]
        assert isinstance(told[0], AttemptExited)
        assert told[0].ended_us is not None
        assert await rest(backend) == []


async def test_full_disk_of_a_host_fails_launches_and_nothing_else(
    bench: Bench, small_disk: Path
) -> None:
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0", job="j1", work_s=3.0))
        await seen_until(backend, AttemptStarted)
        filler = small_disk / "filler"
        fill(filler)
        await order(backend, bench.launching("n0", mask=2))
        told = await seen_until(backend, LaunchFailed)
        (failed,) = [seen for seen in told if isinstance(seen, LaunchFailed)]
        assert "No space left" in failed.cause
        assert failed.retryable
        filler.unlink()
        if AttemptExited not in kinds(told):  # it may end beside the full disk, or after it
            told += await seen_until(backend, AttemptExited, job="j1")
        assert AttemptLost not in kinds(told)
        await order(backend, bench.launching("n0", attempt=2, work_s=0.2, mask=2))
        await seen_until(backend, AttemptExited, job="j0")
    bench.assert_nothing_twice()


async def test_host_whose_disk_is_full_at_the_start_says_so(bench: Bench, small_disk: Path) -> None:
    fill(small_disk / "filler")
    async with bench.opened(hosts=(bench.host("n0"),)) as backend:
        assert "No space left" in backend.causes[NodeName("n0")] or (
            "Failure" in backend.causes[NodeName("n0")]
        )
        (small_disk / "filler").unlink()
        await seen_until(backend, NodeReachable)


async def test_host_whose_disk_filled_up_meanwhile_is_out_of_work_and_back(
    bench: Bench, small_disk: Path
) -> None:
    """The file is there already, and the host answers: but it cannot note whose it is."""
    hosts = (bench.host("n0"), bench.host("n1"))
    async with bench.opened(hosts=hosts):
        fill(small_disk / "filler")
    async with bench.opened(2, hosts=hosts) as backend:
        assert "No space left" in backend.causes[NodeName("n0")]
        await order(backend, bench.launching("n1", work_s=0.1))
        await seen_until(backend, AttemptExited)
        (small_disk / "filler").unlink()
        await seen_until(backend, NodeReachable)
    bench.assert_nothing_twice()


def fill(path: Path) -> None:
    """Write until the disk is full."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for size in (1 << 16, 1 << 12, 1):  # down to the last byte
            with suppress(OSError):
                while os.write(file, b"0" * size):
                    continue
    finally:
        os.close(file)


async def test_streams_of_a_host_can_be_put_in_order_by_what_its_supervisor_saw(
    bench: Bench,
) -> None:
    turns = "for n in 1 2 3; do echo out; sleep 0.2; echo err >&2; sleep 0.2; done"
    spec = JobSpec(1, command=("/bin/sh", "-c", turns))
    async with bench.opened() as backend:
        await order(backend, Launch(J0, 1, allocation(n0=1), spec))
        await seen_until(backend, AttemptExited)
        names = ("stdout-times", "stderr-times")
        out, err = [(await backend.read_output(J0, 1, 0, name, 0, 9999))[0] for name in names]
    pieces = in_time_order((out, err), (0, 0), (12, 12))
    assert [(piece.stream, piece.begin) for piece in pieces] == [
        (stream, 4 * turn) for turn in range(3) for stream in (0, 1)
    ]
    assert not any(unsure_line(piece) for piece in pieces)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to start a job as somebody else")
async def test_root_on_a_host_starts_a_job_as_its_user(bench: Bench) -> None:
    """Its user finds its checkpoints and its channel, in folders that are not its own."""
    for folder in (bench.folder, bench.farm.folder, bench.farm["n0"].folder):
        folder.chmod(0o711)
    look = (
        'id -un; echo "$HOME"; test -w "$SHUNTER_CHANNEL" && echo hears; '
        'touch "$SHUNTER_CHECKPOINT_DIR/mine" && echo saves'
    )
    spec = JobSpec(1, command=("/bin/sh", "-c", look), user=UserName("nobody"))
    strange = JobSpec(1, command=("/bin/sh", "-c", look), user=UserName("no such user"))
    async with bench.opened() as backend:
        await order(backend, Launch(J0, 1, allocation(n0=1), spec))
        await seen_until(backend, AttemptExited)
        said, _ = await backend.read_output(J0, 1, 0, "stdout", 0, 1000)
        assert said.decode().split() == ["nobody", "/nonexistent", "hears", "saves"]
        await order(backend, Launch(job_id(1), 1, allocation(n0=1), strange))
        failed = (await seen_until(backend, LaunchFailed))[-1]
        assert isinstance(failed, LaunchFailed)
        assert "user no such user is not known on this host" in failed.cause


async def test_launch_that_was_lost_is_not_taken_for_the_attempt_before(bench: Bench) -> None:
    """A host that has records of an earlier attempt only says of this one that it never began."""
    async with bench.opened() as backend:
        await order(backend, bench.launching("n0", work_s=0.1))
        await seen_until(backend, AttemptExited)
        first = bench.launching("n0")
        backend.adopt(J0, 2, started=False, on=first.allocation)
        told = await seen_until(backend, LaunchFailed)
        assert kinds(told) == [LaunchFailed]
    bench.assert_nothing_twice()


async def test_host_that_comes_back_before_it_is_recalled_is_reachable_once(bench: Bench) -> None:
    bench.farm.stop("n0")
    async with bench.opened() as backend:
        bench.farm.start("n0")
        await waits_for(lambda: not backend.unreachable, "its return")
        backend.recall([NodeName("n0")])
        assert kinds(await rest(backend)) == [NodeUnreachable, NodeReachable]
