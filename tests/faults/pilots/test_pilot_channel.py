"""The channel of pilots: who holds a wanted key is let in, and nobody else, whatever they send."""

import json
import os
import socket
import ssl
import time
from pathlib import Path

import anyio
import pytest

from shunter.backends.node import (
    SERVER_NAME,
    PilotFile,
    UnsafePilotFileError,
    dial,
    read_pilot_file,
)
from shunter.backends.slurm import ClusterAuthority, ListenerSettings, PilotStream, read_certificate
from tests.faults.pilots.dialling import HOUR_S, PATIENCE_S, daemon, ended, exchanged, until

pytestmark = pytest.mark.asyncio


def plain(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S)


async def is_closed(connection: socket.socket) -> bool:
    """Say whether the daemon closes a connection; what it says before is read."""

    def read() -> bool:
        try:
            while connection.recv(4096):
                pass
        except OSError:
            pass
        return True

    with anyio.fail_after(PATIENCE_S):
        return await anyio.to_thread.run_sync(read)


async def test_pilot_with_its_file_is_let_in_and_bytes_go_both_ways(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        certificate = here.issue()
        tls, answer = await here.dial(certificate.path, job="42", node="n3")
        assert await exchanged(tls, b"x" * 1000) == b"x" * 1000
        (stream,) = here.told.streams
        assert (stream.name, stream.hello.job, stream.hello.node) == ("p1", "42", "n3")
        assert answer["nonce"] == stream.nonce
        assert tls.version() == "TLSv1.3"
        tls.close()
        await until(lambda: here.told.over != [])
    assert here.told.over == ["the connection to pilot p1 was lost"]
    assert here.told.refusals == []


async def test_lost_connection_ends_the_stream_and_raises_nothing_else(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        tls, _ = await here.dial(here.issue().path)
        await until(lambda: here.told.streams != [])
        lingering = socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0])
        tls.setsockopt(socket.SOL_SOCKET, *lingering)  # closes by a reset
        tls.close()
        await until(lambda: here.told.over != [])
        assert await here.told.streams[0].read(1) == b""
        with pytest.raises(BrokenPipeError):
            await here.told.streams[0].write(b"x")


async def test_many_tasks_may_send_at_once(tmp_path: Path) -> None:
    async def speak(stream: PilotStream) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(stream.write, bytes([number]) * 50_000)

    async with daemon(tmp_path, speak) as here:
        tls, _ = await here.dial(here.issue().path)

        def read_all() -> bytes:
            found = b""
            while len(found) < 1_000_000:
                found += tls.recv(1 << 16)
            return found

        found = await anyio.to_thread.run_sync(read_all)
        assert all(found.count(bytes([number]) * 50_000) == 1 for number in range(20))


async def test_certificate_is_known_again_after_a_restart_of_the_daemon(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        issued = here.issue()
    async with daemon(tmp_path) as again:
        found = read_certificate(issued.path)
        assert found == issued
        again.listener.admit(found)
        other = PilotFile(name="p2", addresses=("x",), port=1, cluster="c1")
        again.authority.issue(tmp_path / "p2", other, valid_s=1, wall_s=time.time())
        head, rest = issued.path.read_text().split("\n", 1)
        issued.path.write_text(json.dumps({**json.loads(head), "port": again.port}) + "\n" + rest)
        _, answer = await again.dial(issued.path)
        assert answer["nonce"]


@pytest.mark.parametrize("others", ["key", "cluster"])
async def test_key_of_another_is_refused(tmp_path: Path, others: str) -> None:
    """Goal: neither another cluster's pilot nor one with a key of its own making gets in."""
    async with daemon(tmp_path) as here:
        issued = here.issue()
        (tmp_path / "other").mkdir()
        stranger = ClusterAuthority.load(tmp_path / "other", time.time())
        told = PilotFile(name="p1", addresses=("127.0.0.1",), port=here.port, cluster="c1")
        path = tmp_path / "strange.pilot"
        stranger.issue(path, told, valid_s=HOUR_S, wall_s=time.time())
        theirs, ours = path.read_text(), issued.path.read_text()
        if others == "cluster":  # it trusts ours all the same
            path.write_text(ours.partition("\n")[0] + "\n" + theirs.partition("\n")[2])
        with pytest.raises(OSError, match=r"127\.0\.0\.1 port"):
            await here.dial(path)
        await until(lambda: here.told.refusals != [])
        assert here.told.streams == []


async def test_certificate_without_its_key_is_no_file_of_a_pilot(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        one, two = here.issue("p1").path, here.issue("p2").path
        mixed = one.read_text().partition("-----BEGIN CERT")[0] + "".join(
            two.read_text().partition("\n")[2].partition("-----BEGIN CERT")[1:]
        )
        one.write_text(mixed)
        with pytest.raises(ssl.SSLError, match="KEY_VALUES_MISMATCH"):
            read_pilot_file(str(one))


async def test_expired_certificate_is_refused(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        with pytest.raises(OSError, match="see the daemon's log"):
            await here.dial(here.issue(valid_s=-1.0).path)
        await until(lambda: here.told.refusals != [])
        assert "certificate has expired" in here.told.refusals[0]
        assert here.told.streams == []


async def test_pilot_that_is_not_wanted_any_more_is_refused_and_cut_off(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        issued = here.issue()
        tls, _ = await here.dial(issued.path)
        await until(lambda: here.told.streams != [])
        await here.listener.revoke("p1")
        assert await ended(tls)
        _, answer = await here.dial(issued.path)
        assert answer["nonce"] is None
        assert answer["is_over"] is True
        assert here.told.refusals == ["pilot p1: it is not wanted any more"]


async def test_certificate_that_was_renewed_voids_the_one_before(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        before = here.issue()
        old = tmp_path / "old.pilot"
        old.write_bytes(before.path.read_bytes())
        old.chmod(0o600)
        after = here.issue()
        _, answer = await here.dial(old)
        assert (answer["nonce"], answer["is_over"]) == (None, False)
        _, answer = await here.dial(after.path)
        assert answer["nonce"]


async def test_pilot_cannot_pose_as_the_daemon(tmp_path: Path) -> None:
    """Goal: a stolen pilot's key opens no other pilot. Method: serve with it."""
    async with daemon(tmp_path) as here:
        thief, victim = here.issue("p1").path, here.issue("p2").path
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(thief)
        said, keys = read_pilot_file(str(victim))
        ours, theirs = socket.socketpair()

        def pose() -> None:
            with pytest.raises(OSError, match=r"\w"):
                context.wrap_socket(ours, server_side=True).close()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, pose)
            with pytest.raises(ssl.SSLCertVerificationError):
                await anyio.to_thread.run_sync(
                    lambda: keys.wrap_socket(theirs, server_hostname=SERVER_NAME)
                )
            theirs.close()
        assert said["name"] == "p2"


async def test_older_tls_is_refused(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        said, context = read_pilot_file(str(here.issue().path))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(OSError, match=r"closed|EOF|alert"):
            await anyio.to_thread.run_sync(
                dial, said, context, {"do": "serve", "instance": "i1"}, PATIENCE_S
            )


async def test_recorded_bytes_of_a_pilot_are_of_no_use_to_who_replays_them(tmp_path: Path) -> None:
    """Goal: a replay is refused. Method: record a whole session in a proxy, and send it again."""
    async with daemon(tmp_path) as here:
        recorded: list[bytes] = []

        async def relay(near: anyio.abc.SocketStream) -> None:
            far = await anyio.connect_tcp("127.0.0.1", here.port)

            async def back() -> None:
                async for data in far:
                    await near.send(data)

            async with near, far, anyio.create_task_group() as tasks:
                tasks.start_soon(back)
                async for data in near:
                    recorded.append(data)
                    await far.send(data)
                tasks.cancel_scope.cancel()

        proxy = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = proxy.extra(anyio.abc.SocketAttribute.local_port)
        async with proxy, anyio.create_task_group() as tasks:
            tasks.start_soon(proxy.serve, relay)
            tls, _ = await here.dial(here.issue(port=port).path)
            assert await exchanged(tls, b"start it") == b"start it"
            tls.close()
            await until(lambda: here.told.over != [])
            tasks.cancel_scope.cancel()
        with plain(here.port) as replayed:
            replayed.sendall(b"".join(recorded))
            assert await is_closed(replayed)
        await until(lambda: here.told.refusals != [])
        assert len(here.told.streams) == 1


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 4096, b"\x16\x03\x01\xff\xff" + b"a" * 70_000]
)
async def test_garbage_is_refused(tmp_path: Path, garbage: bytes) -> None:
    async with daemon(tmp_path, settings=ListenerSettings("127.0.0.1", handshake_s=1.0)) as here:
        with plain(here.port) as connection:
            connection.sendall(garbage)
            assert await is_closed(connection)
        await until(lambda: here.told.refusals != [])
        _, answer = await here.dial(here.issue().path)
        assert answer["nonce"]


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON\n",
        b'{"version": 1}\n',
        b'{"version": 1, "do": "rule", "instance": "i"}\n',
        b'{"version": 1, "do": "serve", "instance": 7}\n',
        b"[" * 4096,
    ],
)
async def test_pilot_that_says_what_is_no_hello_is_refused(tmp_path: Path, line: bytes) -> None:
    async with daemon(tmp_path) as here:
        _, context = read_pilot_file(str(here.issue().path))

        def say() -> bytes:
            with context.wrap_socket(plain(here.port), server_hostname=SERVER_NAME) as tls:
                tls.sendall(line)
                return tls.recv(4096)

        assert await anyio.to_thread.run_sync(say) == b""
        assert "no pilot of ours" in here.told.refusals[0]


async def test_pilot_of_another_version_is_told_so(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        _, answer = await here.dial(here.issue().path, version=2)
        assert answer["refused"] == "it speaks version 2, expected 1"


async def test_slow_client_is_closed_at_the_deadline(tmp_path: Path) -> None:
    async with daemon(tmp_path, settings=ListenerSettings("127.0.0.1", handshake_s=0.3)) as here:
        with plain(here.port) as connection:
            connection.sendall(b"\x16")
            assert await is_closed(connection)
        await until(lambda: here.told.refusals != [])
        assert here.told.refusals == ["it did not prove within 0.3 s who it is"]


async def test_half_open_connections_are_bounded_and_keep_no_pilot_out(tmp_path: Path) -> None:
    settings = ListenerSettings("127.0.0.1", half_open_max=8)
    async with daemon(tmp_path, settings=settings) as here:
        held = [plain(here.port) for _ in range(12)]
        await until(lambda: len(here.told.refusals) == 4)  # the young are not closed for others
        await anyio.sleep(1.1)
        _, answer = await here.dial(here.issue().path)
        assert answer["nonce"]
        assert len(here.told.refusals) == 5
        for connection in held:
            connection.close()


async def test_second_connection_of_one_process_replaces_the_first(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        issued = here.issue()
        before, _ = await here.dial(issued.path)
        after, answer = await here.dial(issued.path)
        assert answer["nonce"]
        assert await ended(before)
        assert await exchanged(after, b"x") == b"x"
        assert here.told.over == ["pilot p1 has connected again"]


async def test_second_process_of_a_pilot_waits_until_the_first_is_silent(tmp_path: Path) -> None:
    async with daemon(tmp_path, settings=ListenerSettings("127.0.0.1", silent_s=0.5)) as here:
        issued = here.issue()
        first, _ = await here.dial(issued.path)
        assert await exchanged(first, b"x") == b"x"
        _, answer = await here.dial(issued.path, instance="i2")
        assert answer["nonce"] is None
        assert answer["is_over"] is False
        assert await exchanged(first, b"y") == b"y"
        await anyio.sleep(0.6)
        _, answer = await here.dial(issued.path, instance="i2")
        assert answer["nonce"]
        assert await ended(first)


async def test_one_that_replaces_another_is_served_after_that_has_ended(tmp_path: Path) -> None:
    under_way, most = 0, 0

    async def slow(stream: PilotStream) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        while await stream.read(1 << 16):
            pass
        await anyio.sleep(0.1)
        under_way -= 1

    async with daemon(tmp_path, slow) as here:
        issued = here.issue()
        for _ in range(3):
            await here.dial(issued.path)
        await until(lambda: len(here.told.streams) == 3)
    assert most == 1


async def test_notice_of_a_drain_leaves_the_session_alone(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        issued = here.issue()
        tls, _ = await here.dial(issued.path)
        _, answer = await here.dial(issued.path, do="drain", why="SIGTERM", left_s=25.0)
        assert answer == {"nonce": None, "refused": None, "is_over": None}
        assert here.told.drains == [("p1", "SIGTERM", 25.0)]
        assert await exchanged(tls, b"x") == b"x"


async def test_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        path = here.issue().path
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o644)
        with pytest.raises(UnsafePilotFileError, match="mode 0644, expected 0600"):
            read_pilot_file(str(path))
        path.chmod(0o600)
        link = tmp_path / "link"
        link.symlink_to(path)
        with pytest.raises(OSError, match="no plain file"):
            read_pilot_file(str(link))


@pytest.mark.needs("root")
async def test_file_of_another_user_is_refused(tmp_path: Path) -> None:
    async with daemon(tmp_path) as here:
        path = here.issue().path
        os.chown(path, 12345, -1)
        with pytest.raises(UnsafePilotFileError, match="belongs to user 12345, expected 0"):
            read_pilot_file(str(path))
