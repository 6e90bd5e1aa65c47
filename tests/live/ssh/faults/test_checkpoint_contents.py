"""What arrives of a checkpoint: each rank's newest files, with all that a file is besides."""

import hashlib
import os
import stat
import sys
from pathlib import Path

import pytest

from shunter.core import AttemptExited, Launch, Resume, SuspendAttempt
from shunter.events import AttemptStarted, GpusReleased, JobSpec, LaunchFailed
from tests.factories import allocation, job_id
from tests.faults.supervised import wait_for
from tests.live.ssh.bench import Bench, order, seen_until

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

J0 = job_id(0)
HOLE_BYTES = 256 << 20
# Says what all ranks have saved, and saves when asked: its attempt under its rank, and a file of
# its own that it removes in the attempt after.
STEPS = """
import os, sys, time
place, rank, attempt = (os.environ[name] for name in (
    "SHUNTER_CHECKPOINT_DIR", "RANK", "SHUNTER_ATTEMPT"))
os.chdir(place)
print(" ".join("%s=%s" % (name, open(name).read()) for name in sorted(os.listdir("."))), flush=True)
for name in os.listdir("."):
    if name.startswith("old.%s." % rank):
        os.unlink(name)
open("old.%s.%s" % (rank, attempt), "w").close()
print("ready", flush=True)
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.01)
open("step." + rank, "w").write(attempt)
sys.exit(75)
"""
# A checkpoint of all that there is in file systems.
ODD = """
import os, sys, time
place = os.environ["SHUNTER_CHECKPOINT_DIR"]
if os.environ.get("SHUNTER_RESUME"):
    sys.exit(0)
os.chdir(place)
os.makedirs("empty/inside"); os.mkdir("shared"); os.mkdir("read-only")
with open(b"caf\\xe9-\\xff\\n", "wb") as file:
    file.write(b"latin")
with open("holes", "wb") as file:
    for offset in (1 << 20, int(sys.argv[1]) - 4096):
        file.seek(offset); file.write(b"data" * 256)
    file.truncate(int(sys.argv[1]))
open("only-a-hole", "wb").truncate(1 << 20)
with open("shared/weights", "wb") as file:
    file.write(os.urandom(5 << 20))
os.link("shared/weights", "read-only/latest"); os.link("shared/weights", "again")
os.symlink("shared/weights", "link"); os.symlink("/nowhere/at all", "dangling")
os.mkfifo("fifo")
for path in ("shared/weights", "holes", b"caf\\xe9-\\xff\\n"):
    os.utime(path, ns=(10**18 + 123456789, 10**18 + 987654321))
os.utime("link", ns=(10**18, 10**18 + 1), follow_symlinks=False)
os.chmod("holes", 0o640); os.chmod("shared/weights", 0o4751)
os.chmod("shared", 0o2775); os.chmod("read-only", 0o555); os.chmod("empty", 0o1711)
for path in ("shared", "read-only", "empty/inside", "empty"):
    os.utime(path, ns=(10**18, 10**18 + 5))
open("saved", "w").close()
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.01)
sys.exit(75)
"""
# Each rank keeps something else under one name.
AT_ODDS = """
import os, sys, time
place, rank = os.environ["SHUNTER_CHECKPOINT_DIR"], os.environ["RANK"]
if os.environ.get("SHUNTER_RESUME"):
    sys.exit(0)
if rank == "0":
    open(place + "/d", "w").write("0")
else:
    os.mkdir(place + "/d")
    open(place + "/d/1", "w").write("1")
print("ready", flush=True)
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.01)
sys.exit(75)
"""


def running(program: str, *nodes: str, attempt: int) -> Launch | Resume:
    spec = JobSpec(len(nodes), command=(sys.executable, "-I", "-S", "-c", program, str(HOLE_BYTES)))
    kind = Launch if attempt == 1 else Resume
    return kind(J0, attempt, allocation(**dict.fromkeys(nodes, 1)), spec)


def checkpoints(bench: Bench, name: str) -> Path:
    return bench.farm[name].root / "clusters/lab/jobs/j0/checkpoints"


def said(bench: Bench, name: str, attempt: int) -> str:
    path = bench.farm[name].root / f"clusters/lab/jobs/j0/{attempt}/stdout.0"
    return path.read_text() if path.exists() else ""


def wait_until_ready(bench: Bench, name: str, attempt: int) -> None:
    wait_for(lambda: "ready" in said(bench, name, attempt), "its start")


@pytest.mark.parametrize(
    "places",
    [
        # The third attempt gets its files from the second: on n2, rank 1's are of the first.
        [("n0", "n1"), ("n2", "n1"), ("n0", "n1")],
        [("n0", "n1"), ("n1", "n0"), ("n0", "n2")],  # ranks change places
        [("n0",), ("n0", "n1"), ("n0", "n1"), ("n2",)],  # nothing is copied for the third
        [("n0", "n1"), ("n2",), ("n1", "n0"), ("n2", "n1")],
    ],
    ids=["one moves", "swapped", "grown", "shrunk"],
)
async def test_each_rank_goes_on_from_what_it_saved_last(
    bench: Bench, places: list[tuple[str, ...]]
) -> None:
    expected: dict[str, int] = {}
    async with bench.opened() as backend:
        for attempt, nodes in enumerate(places, start=1):
            await order(backend, running(STEPS, *nodes, attempt=attempt))
            await seen_until(backend, AttemptStarted)
            for rank, node in enumerate(nodes):
                wait_until_ready(bench, node, attempt)
                found = said(bench, node, attempt).split("\n")[0].split()
                steps = [each for each in found if each.startswith("step.")]
                due = [f"step.{one}={step}" for one, step in sorted(expected.items())]
                if places[attempt - 2] == nodes:  # what did not move was not copied
                    due = [each for each in due if each.startswith(f"step.{rank}=")]
                    steps = [each for each in steps if each.startswith(f"step.{rank}=")]
                assert steps == due
                removed = [each for each in found if each.startswith(f"old.{rank}.")]
                assert len(removed) <= 1, "what a rank has removed has come back"
            await order(backend, SuspendAttempt(J0, attempt))
            await seen_until(backend, GpusReleased)
            expected.update((str(rank), attempt) for rank in range(len(nodes)))


async def test_transfer_that_did_not_reach_all_hosts_mixes_no_steps(bench: Bench) -> None:
    """One host of the next attempt had got its files when the other was found full, and so on.

    Method: the third attempt never begins, since a file stands where its second host's checkpoints
    would; the fourth, on the hosts of the second, and the fifth, on others, find what was saved.
    """
    async with bench.opened() as backend:
        for attempt, nodes in enumerate([("n0", "n1"), ("n1", "n0")], start=1):
            await order(backend, running(STEPS, *nodes, attempt=attempt))
            await seen_until(backend, AttemptStarted)
            for node in nodes:
                wait_until_ready(bench, node, attempt)
            await order(backend, SuspendAttempt(J0, attempt))
            await seen_until(backend, GpusReleased)
        in_the_way = bench.farm["n2"].root / "clusters/lab/jobs/j0"
        in_the_way.parent.mkdir(parents=True, exist_ok=True)
        in_the_way.write_text("")
        await order(backend, running(STEPS, "n0", "n2", attempt=3))
        await seen_until(backend, LaunchFailed)
        in_the_way.unlink()
        for attempt, nodes in enumerate([("n1", "n0"), ("n2", "n1")], start=4):
            await order(backend, running(STEPS, *nodes, attempt=attempt))
            await seen_until(backend, AttemptStarted)
            for node in nodes:
                wait_until_ready(bench, node, attempt)
            before = 2 if attempt == 4 else 4
            found = [
                {each for each in said(bench, node, attempt).split() if each.startswith("step.")}
                for node in nodes
            ]
            mine = [f"step.{rank}={before}" for rank in range(2)]
            assert all(mine[rank] in each for rank, each in enumerate(found))
            assert attempt == 4 or found == [set(mine)] * 2
            await order(backend, SuspendAttempt(J0, attempt))
            await seen_until(backend, GpusReleased)


def described(folder: Path) -> dict[bytes, tuple[object, ...]]:
    """Return all that a copy must keep: kind, mode, time, content, names, and what it takes."""
    found: dict[bytes, tuple[object, ...]] = {}
    inodes: dict[int, bytes] = {}
    top = os.fsencode(folder)
    paths = [top]
    for where, folders, files in os.walk(top):
        paths += [os.path.join(where, name) for name in [*folders, *files]]  # noqa: PTH118  bytes
    for path in sorted(paths):
        about, name = os.lstat(path), path[len(top) :]
        if stat.S_ISFIFO(about.st_mode):
            continue
        kind, content = stat.S_IFMT(about.st_mode), ""
        if stat.S_ISREG(about.st_mode):
            with open(path, "rb") as file:  # noqa: PTH123  bytes
                content = hashlib.file_digest(file, "sha256").hexdigest()
        elif stat.S_ISLNK(about.st_mode):
            content = os.fsdecode(os.readlink(path))  # noqa: PTH115  bytes
        first = inodes.setdefault(about.st_ino, name)
        mode = stat.S_IMODE(about.st_mode) & 0o777  # bits that give rights are dropped
        found[name] = (kind, mode, about.st_mtime_ns, content, first)
    return found


async def test_checkpoint_arrives_with_all_that_its_files_are(bench: Bench) -> None:
    """Names of any bytes, holes, times, modes, empty folders, hard and symbolic links."""
    async with bench.opened() as backend:
        await order(backend, running(ODD, "n0", attempt=1))
        await seen_until(backend, AttemptStarted)
        wait_for((checkpoints(bench, "n0") / "saved").exists, "its checkpoint")
        await order(backend, SuspendAttempt(J0, 1))
        await seen_until(backend, GpusReleased)
        left = described(checkpoints(bench, "n0"))
        for attempt, node in ((2, "n1"), (3, "n0"), (4, "n1")):  # back, where most lies already
            await order(backend, running(ODD, node, attempt=attempt))
            exited = (await seen_until(backend, AttemptExited))[-1]
            assert isinstance(exited, AttemptExited)
            assert exited.exit_code == 0
            assert described(checkpoints(bench, node)) == left
            holes = (checkpoints(bench, node) / "holes").stat()
            assert (holes.st_size, holes.st_blocks * 512 < 1 << 20) == (HOLE_BYTES, True)
            weights = (checkpoints(bench, node) / "shared/weights").stat()
            assert stat.S_IMODE(weights.st_mode) == 0o751


def names_beside(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.parent.glob("checkpoints.*"))


async def test_ranks_at_odds_about_a_name_leave_no_pieces_and_a_checkpoint(bench: Bench) -> None:
    async with bench.opened() as backend:
        await order(backend, running(AT_ODDS, "n0", "n1", attempt=1))
        await seen_until(backend, AttemptStarted)
        for node in ("n0", "n1"):
            wait_until_ready(bench, node, 1)
        await order(backend, SuspendAttempt(J0, 1))
        await seen_until(backend, GpusReleased)
        await order(backend, running(AT_ODDS, "n2", attempt=2))
        told = await seen_until(backend, AttemptExited)
        assert not [seen for seen in told if isinstance(seen, LaunchFailed)]
    assert (checkpoints(bench, "n2") / "d/1").read_text() == "1"
    beside = {name.split(".")[1] for name in names_beside(checkpoints(bench, "n2"))}
    assert beside == {"lock", "received"}
