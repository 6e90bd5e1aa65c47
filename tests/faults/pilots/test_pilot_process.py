"""A real pilot process: it dials, serves, comes back, keeps its key, and drains at SIGTERM."""

import json
import os
import signal
import socket
import time
from pathlib import Path

import anyio
import pytest

from shunter.backends.slurm import ListenerSettings
from tests.faults.pilots.dialling import daemon, until
from tests.faults.pilots.driving import (
    SUSPENDS,
    TRAINS,
    Sessions,
    below,
    exit_code,
    pilot_process,
    session_of,
)
from tests.unit.backends.agents.test_zip_application import PYTHONS, application

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

LOOKS_AROUND = """
import json, os
files = {name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
         if os.path.lexists(f"/proc/self/fd/{name}")}
pid, above = os.getpid(), []
while pid > 1:
    paths = [f"/proc/{pid}/{name}" for name in ("cmdline", "environ")]
    said = [open(path, "rb").read().decode("latin-1") for path in paths]
    links = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass
    above.append([pid, said, links])
    pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
rows = [line.split() for line in open("/proc/net/unix")]
pairs = [f"socket:[{row[6]}]" for row in rows if len(row) == 7 and row[4] == "0005"]
print(json.dumps({"files": files, "above": above, "pairs": pairs}))
"""
IGNORES = """
import signal, time
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
while True: time.sleep(1)
"""


def complaints(folder: Path) -> str:
    return (folder / "pilot.err").read_text()


@pytest.mark.parametrize("python", PYTHONS)
async def test_attempt_runs_through_a_pilot_that_is_one_file(scratch: Path, python: str) -> None:
    program, sessions = scratch / "agent.py", Sessions()
    program.write_bytes(application())
    async with daemon(scratch, sessions.serve) as here:
        issued = here.issue()
        with pilot_process(issued.path, scratch / "b", [python, "-I", "-S", str(program)]):
            session = await sessions.begun()
            (stream,) = here.told.streams
            assert (stream.hello.job, stream.hello.node) == ("42", "n3")
            await session.start("print('here')")
            known = await session.until_state("ended")
            assert known["status"]["code"] == 0
            assert await session.output() == "here\n"


async def test_no_key_and_no_connection_reaches_a_job_or_its_supervisor(scratch: Path) -> None:
    """Goal: what knows the key is the pilot alone. Method: a job looks around, and up."""
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        issued = here.issue()
        with pilot_process(issued.path, scratch / "b") as pilot:
            session = await sessions.begun()
            await session.start(LOOKS_AROUND)
            await session.until_state("ended")
            found = json.loads(await session.output())
            secret = issued.path.read_text().split("\n")[2:4]
            pids = [pid for pid, _, _ in found["above"]]
            supervisors = found["above"][1 : pids.index(pilot.pid)]
            assert len(supervisors) == 3  # the supervisor, its reaper, the session
            assert not any(link.startswith("socket:") for link in found["files"].values())
            assert not any(link.startswith("socket:") for link in found["above"][0][2])
            for _, said, links in (found["above"][0], *supervisors):
                # Session and supervisor talk by a pair of sockets without a name (SEQPACKET).
                sockets = {link for link in links if link.startswith("socket:")}
                assert sockets <= set(found["pairs"])
                assert not any(line in text for text in said for line in secret)
            (theirs,) = [said for pid, said, _ in found["above"] if pid == pilot.pid]
            assert not any(line in text for text in theirs for line in secret)


async def test_job_goes_on_while_the_daemon_is_away_and_is_found_again(scratch: Path) -> None:
    sessions = Sessions()
    settings = ListenerSettings("127.0.0.1")
    async with daemon(scratch, sessions.serve, settings) as here:
        issued, port = here.issue(), here.port
        process = pilot_process(issued.path, scratch / "b")
        pilot = process.__enter__()
        session = await sessions.begun()
        await session.start(SUSPENDS)
        await session.until_state("running")
    try:
        await until(lambda: "not connected" in complaints(scratch))
        again = ListenerSettings("127.0.0.1", port)
        async with daemon(scratch, sessions.serve, again) as here:
            here.listener.admit(issued)
            session = await sessions.begun(2)
            assert (await session.look())["state"] == "running"
            assert pilot.poll() is None
    finally:
        process.__exit__(None, None, None)


async def test_file_that_was_renewed_is_read_for_the_next_try(scratch: Path) -> None:
    """Goal: a daemon may move. Method: the next one has another port and voids the old key."""
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as before:
        issued = before.issue()
        with pilot_process(issued.path, scratch / "b"):
            await sessions.begun()
            async with daemon(scratch, sessions.serve) as after:
                after.issue()
                await before.listener.revoke("p1")
                session = await sessions.begun(2)
                assert after.told.streams[0].name == "p1"
                await session.start("pass")


async def test_session_that_is_killed_is_begun_anew_and_ends_no_job(scratch: Path) -> None:
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        with pilot_process(here.issue().path, scratch / "b") as pilot:
            session = await sessions.begun()
            await session.start(SUSPENDS)
            os.kill(session_of(pilot), signal.SIGKILL)
            session = await sessions.begun(2)
            assert (await session.look())["state"] == "running"


async def test_daemon_that_is_silent_is_dialled_again(scratch: Path) -> None:
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        with pilot_process(here.issue(silent_s=5).path, scratch / "b"):
            await sessions.begun()
            await sessions.begun(2)
    assert "the daemon has said nothing for 5 s" in complaints(scratch)
    assert "pilot p1 has connected again" not in here.told.over  # it closes one before the other


@pytest.mark.parametrize(("number", "most_s"), [(signal.SIGTERM, 25.0), (signal.SIGUSR1, 100.0)])
async def test_signal_of_slurm_has_jobs_saved_and_their_ends_read(
    scratch: Path, number: signal.Signals, most_s: float
) -> None:
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        with pilot_process(here.issue().path, scratch / "b") as pilot:
            session = await sessions.begun()
            await session.start(SUSPENDS)
            await session.until_state("running")
            pilot.send_signal(number)
            known = await session.until_state("ended")
            assert known["status"]["suspended"]
            assert await exit_code(pilot) == 0
            assert below(scratch / "b") == []
    ((name, why, left_s),) = here.told.drains
    assert (name, why) == ("p1", number.name)
    assert most_s - 5 < left_s <= most_s


async def test_session_outlives_the_sigterm_that_slurm_sends_to_all(scratch: Path) -> None:
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        with pilot_process(here.issue().path, scratch / "b") as pilot:
            session = await sessions.begun()
            await session.start(SUSPENDS)
            await session.until_state("running")
            os.kill(session_of(pilot), signal.SIGTERM)
            pilot.terminate()
            assert (await session.until_state("ended"))["status"]["suspended"]
            assert await exit_code(pilot) == 0
    assert len(sessions.all) == 1


async def test_attempt_that_starts_during_a_drain_is_suspended_too(scratch: Path) -> None:
    sessions = Sessions()
    slow = f"{TRAINS}\ntime.sleep(4)\nraise SystemExit(75)"
    async with daemon(scratch, sessions.serve) as here:
        with pilot_process(here.issue().path, scratch / "b") as pilot:
            session = await sessions.begun()
            await session.start(slow)
            pilot.send_signal(signal.SIGTERM)
            await until(lambda: here.told.drains != [])
            await session.start(SUSPENDS, job="j2")
            assert (await session.until_state("ended", "j2"))["status"]["suspended"]
            assert await exit_code(pilot) == 0


async def test_sigterm_after_a_notice_leaves_less_time(scratch: Path) -> None:
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        with pilot_process(here.issue(drain_s=1.0, notice_s=600.0).path, scratch / "b") as pilot:
            session = await sessions.begun()
            await session.start(IGNORES)
            await session.until_state("running")
            pilot.send_signal(signal.SIGUSR1)
            await until(lambda: here.told.drains != [])
            await anyio.sleep(1.5)
            assert (await session.look())["state"] == "running"
            pilot.terminate()
            assert (await session.until_state("ended"))["status"]["why"] == "fence"
            assert await exit_code(pilot) == 0


async def test_what_does_not_save_in_time_is_killed(scratch: Path) -> None:
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        with pilot_process(here.issue(drain_s=1.0).path, scratch / "b") as pilot:
            session = await sessions.begun()
            await session.start(IGNORES)
            await session.until_state("running")
            began_s = time.monotonic()
            pilot.terminate()
            known = await session.until_state("ended")
            assert known["status"]["why"] == "fence"
            assert await exit_code(pilot) == 0
            assert time.monotonic() - began_s < 10
            assert below(scratch / "b") == []


async def test_drain_needs_no_daemon(scratch: Path) -> None:
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        process = pilot_process(here.issue().path, scratch / "b")
        pilot = process.__enter__()
        session = await sessions.begun()
        await session.start(SUSPENDS)
        await session.until_state("running")
    try:
        await until(lambda: "not connected" in complaints(scratch))
        pilot.terminate()
        assert await exit_code(pilot) == 0
        status = scratch / "b" / "clusters" / "c1" / "jobs" / "j1" / "1" / "status"
        assert json.loads(status.read_text())["suspended"]
    finally:
        process.__exit__(None, None, None)


async def test_drain_waits_for_no_daemon_that_hangs(scratch: Path) -> None:
    """Goal: little time is left by then. Method: what is dialled never says a word."""
    async with daemon(scratch) as here:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            issued = here.issue(port=mute.getsockname()[1])
            with pilot_process(issued.path, scratch / "b") as pilot:
                connection, _ = await anyio.to_thread.run_sync(mute.accept)
                began_s = time.monotonic()
                pilot.terminate()
                assert await exit_code(pilot) == 0
                assert time.monotonic() - began_s < 8
                connection.close()


async def test_addresses_of_the_daemon_are_tried_in_turn(scratch: Path) -> None:
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        addresses = ("127.0.0.3", "no-such-host.invalid", "127.0.0.1")
        with pilot_process(here.issue(addresses=addresses).path, scratch / "b") as pilot:
            await sessions.begun()
            assert pilot.poll() is None
            assert "connected" in complaints(scratch)


async def test_pilot_that_is_not_wanted_ends_once_nothing_runs(scratch: Path) -> None:
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        with pilot_process(here.issue().path, scratch / "b") as pilot:
            session = await sessions.begun()
            await session.start("import time; time.sleep(2)")
            await here.listener.revoke("p1")
            await until(lambda: len(here.told.refusals) > 1)
            assert pilot.poll() is None
            assert await exit_code(pilot) == 0
    assert "the daemon refuses this pilot: it is not wanted any more" in complaints(scratch)


async def test_empty_pilot_ends_when_no_daemon_comes_for_long(scratch: Path) -> None:
    async with daemon(scratch) as here:
        issued = here.issue(patience_s=1.0)
    with pilot_process(issued.path, scratch / "b") as pilot:
        assert await exit_code(pilot) == 0


async def test_pilot_refuses_a_file_that_others_can_read(scratch: Path) -> None:
    async with daemon(scratch) as here:
        issued = here.issue()
        issued.path.chmod(0o640)
        with pilot_process(issued.path, scratch / "b") as pilot:
            assert await exit_code(pilot) == 1
    assert "mode 0640, expected 0600" in complaints(scratch)


async def test_large_answers_and_questions_pass_whole(scratch: Path) -> None:
    sessions = Sessions()
    async with daemon(scratch, sessions.serve) as here:
        with pilot_process(here.issue().path, scratch / "b"):
            session = await sessions.begun()
            await session.start("print('x' * 3_000_000)", note="y" * 3_000_000)
            await session.until_state("ended")
            for _ in range(20):
                assert len(await session.output()) == 1 << 18
