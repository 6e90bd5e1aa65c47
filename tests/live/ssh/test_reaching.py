"""How hosts are reached: whom we believe, what leaks in, and shells that are noisy or slow."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import asyncssh
import asyncssh.channel
import pytest

from shunter.backends.live import (
    WINDOW_BYTES,
    SshAccess,
    SshBackend,
    UnreachedError,
    host_inventories,
)
from shunter.backends.node.host import END, packed
from shunter.core import AttemptExited
from shunter.events import AttemptStarted, LaunchFailed, NodeName, NodeReachable, NodeUnreachable
from tests.faults.supervised import wait_for
from tests.live.ssh.bench import Bench, kinds, order, rest, seen_until
from tests.live.ssh.farm import make_key
from tests.unit.backends.agents.test_zip_application import old_python

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

N0 = NodeName("n0")
EXTERNAL_SFTP = next(
    (
        path
        for path in ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")
        if os.path.exists(path)  # noqa: PTH110  a path like any other
    ),
    "",
)


async def runs_a_job(backend: SshBackend, bench: Bench, node: str = "n0") -> None:
    """Hold that a job runs there, once, to its end."""
    await order(backend, bench.launching(node, work_s=0.2))
    told = await seen_until(backend, AttemptExited)
    assert kinds([seen for seen in told if not isinstance(seen, NodeUnreachable)]) == [
        AttemptStarted,
        AttemptExited,
    ]
    bench.assert_nothing_twice()


async def test_wrong_key_makes_a_host_unreachable_and_says_so(bench: Bench) -> None:
    stranger = bench.folder / "stranger"
    make_key(stranger)
    access = replace(bench.settings().access, keys=(str(stranger),))
    async with bench.opened(access=access) as backend:
        assert kinds(await rest(backend)) == [NodeUnreachable] * 3
        assert "does not accept" in backend.causes[N0]
        assert "authorized_keys" in backend.causes[N0]


@pytest.mark.parametrize("mode", [0o666, 0o644, 0o640, 0o610])
async def test_private_key_that_others_can_read_is_not_used(bench: Bench, mode: int) -> None:
    bench.farm.key.chmod(mode)
    async with bench.opened() as backend:
        assert f"that others may read (mode {mode:04o}): chmod 600" in backend.causes[N0]
    hosts, access = (bench.host("n0"),), bench.settings().access
    (found,) = await anyio.to_thread.run_sync(host_inventories, hosts, access, 5.0)
    assert "chmod 600" in found.cause


async def test_file_of_known_hosts_that_others_can_change_is_not_believed(bench: Bench) -> None:
    bench.farm.known_hosts.chmod(0o666)
    async with bench.opened() as backend:
        assert "that others may change (mode 0666): chmod o-w" in backend.causes[N0]


async def test_host_with_an_unknown_key_is_refused(bench: Bench) -> None:
    bench.farm.trust("n1", "n2")
    async with bench.opened() as backend:
        assert list(backend.causes) == [N0]
        assert "shows a key that is not in" in backend.causes[N0]


async def test_host_with_a_changed_key_is_refused_until_it_is_known(bench: Bench) -> None:
    host = bench.farm["n0"]
    bench.farm.stop("n0")
    for name in ("host_key", "host_key.pub"):
        (host.folder / name).unlink()
    make_key(host.folder / "host_key")
    bench.farm.start("n0")
    async with bench.opened() as backend:
        assert "if it has changed and nobody knows why, do not" in backend.causes[N0]
        bench.farm.trust("n0", "n1", "n2")
        await seen_until(backend, NodeReachable)
        await runs_a_job(backend, bench)


async def test_missing_file_of_known_hosts_refuses_everybody(bench: Bench) -> None:
    bench.farm.known_hosts.unlink()
    async with bench.opened() as backend:
        assert len(backend.causes) == 3


def answers(path: Path) -> bool:
    """Say whether somebody takes connections on a socket."""
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(str(path)) == 0


@pytest.fixture
def agent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The socket of an agent with the key of the farm, named by the environment."""
    if shutil.which("ssh-agent") is None:
        pytest.skip("needs ssh-agent")
    path, null = bench.folder / "agent", subprocess.DEVNULL
    running = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=null, stderr=null)
    try:
        wait_for(lambda: answers(path), "an agent")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        subprocess.run(["ssh-add", "-q", str(bench.farm.key)], check=True, timeout=60)
        yield str(path)
    finally:
        running.kill()
        running.wait()


async def test_agent_of_the_user_opens_nothing_unless_it_is_named(bench: Bench, agent: str) -> None:
    no_keys = SshAccess(known_hosts=str(bench.farm.known_hosts))
    async with bench.opened(access=no_keys) as backend:
        assert len(backend.causes) == 3
    async with bench.opened(2, access=replace(no_keys, agent=agent)) as backend:
        assert backend.causes == {}


@pytest.mark.parametrize("named", ["none", "agent"])
async def test_default_keys_of_the_user_open_nothing(
    bench: Bench, agent: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: only what is named is shown. Method: the right key lies where `ssh` would look."""
    home = bench.folder / "home"
    (home / ".ssh").mkdir(parents=True)
    shutil.copy(bench.farm.key, home / ".ssh" / "id_ed25519")
    monkeypatch.setenv("HOME", str(home))
    await anyio.run_process(["ssh-add", "-q", "-D"])
    access = SshAccess(
        known_hosts=str(bench.farm.known_hosts), agent=agent if named == "agent" else ""
    )
    async with bench.opened(access=access) as backend:
        assert len(backend.causes) == 3
        assert "does not accept" in backend.causes[N0]


async def test_agent_that_is_gone_is_said_so(bench: Bench) -> None:
    access = SshAccess(known_hosts=str(bench.farm.known_hosts), agent=str(bench.folder / "gone"))
    async with bench.opened(access=access) as backend:
        assert "start it, or name keys" in backend.causes[N0]


async def test_host_down_at_the_start_is_taken_once_it_answers(bench: Bench) -> None:
    bench.farm.stop("n0")
    async with bench.opened() as backend:
        assert kinds(await rest(backend)) == [NodeUnreachable]
        assert "is sshd running" in backend.causes[N0]
        await order(backend, bench.launching("n0"))
        failed = (await seen_until(backend, LaunchFailed))[-1]
        assert isinstance(failed, LaunchFailed)
        assert failed.retryable
        bench.farm.start("n0")
        await seen_until(backend, NodeReachable)
        await order(backend, bench.launching("n0", attempt=2, work_s=0.1))
        await seen_until(backend, AttemptExited)
    bench.assert_nothing_twice()


@pytest.mark.parametrize("sftp", ["internal-sftp", EXTERNAL_SFTP], ids=["internal", "external"])
async def test_noisy_and_slow_shell_does_not_matter(bench: Bench, sftp: str) -> None:
    """A shell that talks breaks an SFTP server that it starts; the file gets there all the same."""
    if not sftp:
        pytest.skip("needs sftp-server")
    bench.farm["n0"].sftp = sftp
    bench.farm.stop("n0")
    bench.farm["n0"].noisy("echo 'Welcome {\"id\": 1}'; echo oops >&2; sleep 0.4\n")
    bench.farm.start("n0")
    async with bench.opened() as backend:
        assert backend.causes == {}
        await runs_a_job(backend, bench)


async def test_host_with_an_old_python_runs_jobs(bench: Bench) -> None:
    python = old_python()
    if python is None:
        pytest.skip("needs Python 3.8")
    host = replace(bench.host("n0"), python=python)
    async with bench.opened(hosts=(host,)) as backend:
        assert backend.causes == {}
        await runs_a_job(backend, bench)


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7"])
async def test_host_with_too_old_a_python_says_which_it_needs(bench: Bench, version: str) -> None:
    python = old_python(version)
    if python is None:
        pytest.skip(f"needs Python {version}")
    host = replace(bench.host("n0"), python=python)
    async with bench.opened(hosts=(host,)) as backend:
        assert "it is older than 3.8: name another, python = PATH" in backend.causes[N0]
    (found,) = await anyio.to_thread.run_sync(
        host_inventories, (host,), bench.settings().access, 5.0
    )
    assert "it is older than 3.8" in found.cause


async def test_host_without_python_is_unreachable_and_says_so(bench: Bench) -> None:
    host = replace(bench.host("n0"), python="python-of-nowhere")
    async with bench.opened(hosts=(host,)) as backend:
        assert "python-of-nowhere" in backend.causes[N0]
        assert "not found" in backend.causes[N0]


async def test_sixty_hosts_are_reached_at_once(bench: Bench) -> None:
    """sshd drops some of many new connections (MaxStartups 10:30:100): not more than 8 wait.

    Then each is given a job, all at once.
    """
    one = bench.host("n0")
    hosts = tuple(
        replace(one, name=NodeName(f"h{number}"), base=str(bench.folder / f"h{number}"))
        for number in range(60)
    )
    async with bench.opened(
        hosts=hosts, connect_s=60.0, call_s=60.0, launch_s=60.0, keepalive_s=60.0, patrol_s=5.0
    ) as backend:
        assert backend.causes == {}
        assert await rest(backend, 0.1) == []
        assert bench.farm["n0"].log().count("Accepted publickey") == 60
        jobs = [bench.launching(host.name, job=f"j{host.name}", work_s=0.1) for host in hosts]
        await order(backend, *jobs)
        ended = 0
        while ended < len(jobs):
            told = await seen_until(backend, AttemptExited)
            ended += sum(isinstance(seen, AttemptExited) for seen in told)
    bench.assert_nothing_twice()
    assert sum(bench.runs().values()) == 60


async def test_file_that_came_half_is_pushed_again(bench: Bench) -> None:
    async with bench.opened(hosts=(bench.host("n0"),)):
        (path,) = sorted(bench.farm["n0"].root.glob("shunter-*.pyz"))
        content = path.read_bytes()
    path.write_bytes(content[:1000])
    async with bench.opened(2, hosts=(bench.host("n0"),)) as backend:
        await runs_a_job(backend, bench)
    assert path.read_bytes() == content
    assert sorted(each.name for each in path.parent.glob("shunter-*")) == [path.name]


async def test_connection_lost_while_a_channel_is_opened_is_a_host_that_does_not_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: asyncssh's own assertion ends no daemon. Method: lose it where that is asserted."""
    opened = asyncssh.channel.SSHClientChannel._open

    async def lost_right_after(self: Any, *arguments: Any) -> Any:
        packet = await opened(self, *arguments)
        self.get_connection().abort()
        await anyio.sleep(0.1)
        return packet

    async with bench.opened() as backend:
        link = backend.agents[N0]
        monkeypatch.setattr(asyncssh.channel.SSHClientChannel, "_open", lost_right_after)
        with pytest.raises(UnreachedError, match="host n0 was lost"):
            async with link.programs() as connection:
                await connection.begin("ages", link.root, "nonce")
        monkeypatch.undo()
        await anyio.to_thread.run_sync(wait_for, lambda: link.is_up, "the host")
        monkeypatch.setattr(asyncssh.channel.SSHClientChannel, "_open", lost_right_after)
        bench.farm.disconnect("n0")  # what is opened anew is lost again, until it may stay
        await anyio.sleep(1.0)
        monkeypatch.undo()
        while await rest(backend, 1.0) or not link.is_up:
            pass  # the last one to be lost may be up for a moment, and is reached again later
        await runs_a_job(backend, bench)


async def test_program_that_prints_much_waits_on_its_host_for_a_slow_reader(bench: Bench) -> None:
    """Goal: what is not read yet is held there, not by the daemon: a checkpoint may have terabytes.

    Method: read little of a stream; while we sleep its host could send far more than a window.
    """
    folder, nonce = bench.folder / "checkpoints", "0123456789abcdef"
    folder.mkdir()
    (folder / "large").write_bytes(b"x" * 32 * WINDOW_BYTES)
    async with bench.opened() as backend, backend.agents[N0].programs() as link:
        process = await link.begin("stream", str(folder), "", nonce)
        await process.write(packed({"paths": ["large"]}) + END)
        await process.end_input()
        read, sent = 0, 0
        while read < WINDOW_BYTES:
            read += len(await process.read(1 << 15))
            await anyio.sleep(0.01)
            sent = max([sent, *map(written_by, running(nonce))])
            assert sent - read < 5 * WINDOW_BYTES
        assert sent > 0
        await process.aclose()


def running(word: str) -> list[int]:
    """Return the processes that have a word in their command."""
    found = []
    for path in sorted(Path("/proc").glob("[0-9]*/cmdline")):
        with suppress(OSError):
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def written_by(pid: int) -> int:
    """Return how many bytes a process has written; 0 for none."""
    try:
        counters = Path(f"/proc/{pid}/io").read_text().split()
    except OSError:
        return 0
    return int(counters[counters.index("wchar:") + 1])
