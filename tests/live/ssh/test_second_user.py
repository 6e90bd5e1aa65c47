"""Another user of the hosts, whose jobs the scheduler runs as root: what they get out of it.

Goal: nothing. What a job leaves in folders of its own is read and written as that job's user, and
what lies where users may write is not believed.
"""

import os
import pwd
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from shunter.backends.live import digest, host_inventories, zip_application
from shunter.core import AttemptExited, Launch, Resume, SuspendAttempt
from shunter.events import (
    AttemptStarted,
    GpusReleased,
    JobId,
    JobSpec,
    LaunchFailed,
    NodeName,
    UserName,
)
from tests.factories import allocation, job_id
from tests.faults.supervised import wait_for
from tests.live.ssh.bench import Bench, order, seen_until

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.ssh,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to log in as, and a second user"),
]

J0 = job_id(0)
STRANGER = f"shunter-{os.getpid()}"  # tests run beside each other
# Rank 0 leaves a link to a folder of root, rank 1 a program for it, each below the same name.
LINKS = """
test "$SHUNTER_RESUME" && exit 0
cd "$SHUNTER_CHECKPOINT_DIR"
if [ "$RANK" = 0 ]; then
    ln -s "$0" d
else
    mkdir d
    for number in $(seq 200); do cp /bin/true "d/suid$number"; chmod 6755 "d/suid$number"; done
fi
touch saved
while [ ! -e "$SHUNTER_SUSPEND" ]; do sleep 0.05; done
exit 75
"""


@pytest.fixture
def stranger() -> Iterator[int]:
    """A user of this machine who is nobody else."""
    if shutil.which("useradd") is None:
        pytest.skip("needs useradd")
    wait_for(lambda: did("useradd", "-M", "-N", STRANGER), "a user")  # others may make one too
    yield int(subprocess.run(["id", "-u", STRANGER], check=True, capture_output=True).stdout)
    wait_for(lambda: did("userdel", STRANGER), "its removal")


def did(*command: str) -> bool:
    """Say whether a command succeeds."""
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def let_in(bench: Bench) -> None:
    """Let everybody pass through the folders that hold those of the hosts."""
    for folder in (bench.folder, bench.farm.folder):
        folder.chmod(0o711)
    for host in bench.farm.hosts.values():
        host.folder.chmod(0o711)


def gang(*nodes: str, attempt: int, argv: tuple[str, ...], job: JobId = J0) -> Launch | Resume:
    spec = JobSpec(
        len(nodes),
        command=("/bin/sh", "-c", *argv),
        user=UserName(STRANGER),
    )
    kind = Launch if attempt == 1 else Resume
    return kind(job, attempt, allocation(**dict.fromkeys(nodes, 1)), spec)


@contextmanager
def watched(*roots: Path) -> Iterator[list[str]]:
    """Look all the time for programs that would run with the rights of root."""
    found: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            found.extend(rights_of_root(*roots))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield found
    finally:
        over.set()
        looking.join()


def rights_of_root(*roots: Path) -> list[str]:
    """Return the programs below folders of jobs that run as root, whoever starts them."""
    found = []
    for root in roots:
        for where, _, names in os.walk(root / "clusters/lab/jobs"):
            for name in names:
                try:
                    about = (Path(where) / name).lstat()
                except OSError:
                    continue
                if about.st_uid == 0 and about.st_mode & (stat.S_ISUID | stat.S_ISGID):
                    found.append(f"{where}/{name}")
    return found


async def test_link_in_a_checkpoint_leads_no_file_of_root_anywhere(
    bench: Bench, stranger: int
) -> None:
    """A gang on two hosts is suspended, and goes on on a third."""
    let_in(bench)
    target = bench.folder / "target"
    target.mkdir(mode=0o755)
    roots = [host.root for host in bench.farm.hosts.values()]
    with watched(*roots) as seen:
        async with bench.opened() as backend:
            await order(backend, gang("n0", "n1", attempt=1, argv=(LINKS, str(target))))
            await seen_until(backend, AttemptStarted)
            left = bench.farm["n1"].root / "clusters/lab/jobs/j0/checkpoints/saved"
            until_s = time.monotonic() + 20
            while not left.exists() and time.monotonic() < until_s:
                time.sleep(0.05)  # noqa: ASYNC251  short
            await order(backend, SuspendAttempt(J0, 1))
            await seen_until(backend, GpusReleased)
            await order(backend, gang("n2", attempt=2, argv=(LINKS, str(target))))
            await seen_until(backend, AttemptExited)
    assert sorted(target.iterdir()) == []
    assert seen == []
    arrived = bench.farm["n2"].root / "clusters/lab/jobs/j0/checkpoints/d"
    assert stat.S_ISDIR(arrived.lstat().st_mode)
    about = (arrived / "suid200").stat()
    assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (stranger, 0o755)


# As long as the file of the scheduler, and under its name: it tells as whom it runs.
EVIL = """
import os, sys
open({proof!r}, "a").write("%d " % os.geteuid())
"""


@pytest.fixture
def shared(bench: Bench, stranger: int) -> Path:
    """A folder in which everybody may make files, as there is on many a scratch disk."""
    let_in(bench)
    found = bench.folder / "scratch"
    found.mkdir()
    found.chmod(0o1777)
    return found


def trap(folder: Path, proof: Path) -> None:
    """Lay what is to be run as somebody else where the scheduler's own file would lie."""
    content = zip_application()
    evil = EVIL.format(proof=str(proof)).encode()
    folder.mkdir(exist_ok=True)
    path = folder / f"shunter-{digest(content)}.pyz"
    path.write_bytes(evil + b"#" * (len(content) - len(evil)))


def given_away(bench: Bench, shared: Path) -> Path:
    """A folder that the stranger has made."""
    trap(shared / "base", bench.folder / "proof")
    for path in (shared / "base", *sorted((shared / "base").iterdir())):
        shutil.chown(path, STRANGER)
    return shared / "base"


def below_given_away(bench: Bench, shared: Path) -> Path:
    """A folder of root in one of the stranger's, who can swap it."""
    base = given_away(bench, shared) / "inner"
    trap(base, bench.folder / "proof")
    return base


def linked(bench: Bench, shared: Path) -> Path:
    """A link of the stranger's to a folder that is safe today."""
    trap(bench.folder / "elsewhere", bench.folder / "proof")
    (shared / "base").symlink_to(bench.folder / "elsewhere")
    os.lchown(shared / "base", pwd.getpwnam(STRANGER).pw_uid, -1)
    return shared / "base"


def open_to_all(bench: Bench, shared: Path) -> Path:
    """A folder of root's to which everybody may write."""
    trap(shared / "base", bench.folder / "proof")
    (shared / "base").chmod(0o777)
    return shared / "base"


@pytest.mark.parametrize("made", [given_away, below_given_away, linked, open_to_all])
async def test_folder_in_which_others_can_put_things_is_not_used(
    bench: Bench, shared: Path, made: Callable[[Bench, Path], Path]
) -> None:
    """Nothing that lies there is run, nothing is written there, and doctor says what is wrong."""
    base = made(bench, shared)
    before = sorted(base.iterdir())
    host = replace(bench.host("n0"), base=str(base))
    async with bench.opened(hosts=(host,)) as backend:
        cause = backend.causes.get(NodeName("n0"), "")
    assert not (bench.folder / "proof").exists(), "what somebody else has made was run"
    assert "others could have their programs run there" in cause
    assert "such as /var/lib/shunter" in cause
    assert sorted(base.iterdir()) == before
    access = bench.settings().access
    (found,) = await anyio.to_thread.run_sync(host_inventories, (host,), access, 5.0)
    assert found.cause == cause
    assert not (bench.folder / "proof").exists()


async def test_file_of_the_same_name_and_size_is_not_taken_for_ours(bench: Bench) -> None:
    """Its content decides, not what it is called; and a link of that name is replaced."""
    proof, root = bench.folder / "proof", bench.farm["n0"].root
    trap(root, proof)
    async with bench.opened(hosts=(bench.host("n0"),)) as backend:
        assert backend.causes == {}
    assert not proof.exists()
    (path,) = sorted(root.glob("shunter-*.pyz"))
    assert path.read_bytes() == zip_application()
    path.rename(bench.folder / "moved")
    path.symlink_to(bench.folder / "moved")
    async with bench.opened(2, hosts=(bench.host("n0"),)) as backend:
        assert backend.causes == {}
    assert not path.is_symlink()


async def test_base_made_below_a_folder_for_all_is_used(bench: Bench, shared: Path) -> None:
    host = replace(bench.host("n0"), base=str(shared / "new/base"))
    spec = JobSpec(1, command=("/bin/sh", "-c", "id -un"), user=UserName(STRANGER))
    async with bench.opened(hosts=(host,)) as backend:
        assert backend.causes == {}
        await order(backend, Launch(J0, 1, allocation(n0=1), spec))
        await seen_until(backend, AttemptExited)
        said, _ = await backend.read_output(J0, 1, 0, "stdout", 0, 100)
    assert said.decode().split() == [STRANGER]


async def test_job_whose_user_cannot_get_to_the_base_is_told_so(
    bench: Bench, stranger: int
) -> None:
    """As with root's home, the usual place of a base, which nobody else may enter."""
    let_in(bench)
    bench.farm["n0"].folder.chmod(0o700)
    async with bench.opened() as backend:
        await order(backend, gang("n0", attempt=1, argv=("true",)))
        failed = (await seen_until(backend, LaunchFailed))[-1]
    assert isinstance(failed, LaunchFailed)
    assert f"user {STRANGER} cannot pass through" in failed.cause
    assert "set [backend.ssh] base to a folder that all may enter" in failed.cause


async def test_link_in_a_shared_folder_of_checkpoints_is_not_followed(
    bench: Bench, shared: Path
) -> None:
    """Where hosts share a folder in which all may make files, root makes none elsewhere."""
    target = bench.folder / "target"
    target.mkdir()
    (shared / "lab").symlink_to(target)
    os.lchown(shared / "lab", pwd.getpwnam(STRANGER).pw_uid, -1)
    async with bench.opened(checkpoints=str(shared)) as backend:
        await order(backend, gang("n0", attempt=1, argv=("true",)))
        failed = (await seen_until(backend, LaunchFailed))[-1]
        assert isinstance(failed, LaunchFailed)
        assert "lab" in failed.cause
        assert sorted(target.iterdir()) == []
        (shared / "lab").unlink()
        await order(backend, gang("n0", attempt=2, argv=("true",)))
        await seen_until(backend, AttemptExited)
    assert (shared / "lab/j0").stat().st_uid == pwd.getpwnam(STRANGER).pw_uid


# Tries all that one user may do with what lies below a folder: list, read, write, make, unlock.
TRIES = """
import fcntl, os, sys
done = []
def attempt(what, path, do):
    try:
        do()
    except OSError:
        return
    done.append(what + " " + path)
for path in sys.argv[1:]:
    if os.path.isdir(path):
        attempt("list", path, lambda: os.listdir(path))
        attempt("make", path, lambda: os.close(os.open(path + "/made", os.O_CREAT | os.O_RDWR)))
        attempt("link", path, lambda: os.symlink("/etc", path + "/linked"))
    else:
        attempt("read", path, lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)))
        attempt("write", path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
print("\\n".join(done))
"""


async def test_second_user_gets_at_nothing_that_lies_on_a_host(bench: Bench, stranger: int) -> None:
    """Whatever the umask of who logs in, also while a job of somebody else runs there."""
    let_in(bench)
    for name in bench.farm.hosts:
        bench.farm[name].noisy("umask 000\n")
    said = 'echo \'{"what": "saved", "checkpoint": "c", "step": 1}\' >$SHUNTER_CHANNEL'
    program = f"touch $SHUNTER_CHECKPOINT_DIR/mine; {said}; echo up; exec sleep 60"
    spec = JobSpec(1, command=("/bin/sh", "-c", program), user=UserName("nobody"))
    async with bench.opened(sample_s=0.1) as backend:
        await order(backend, Launch(J0, 1, allocation(n0=1), spec))
        await seen_until(backend, AttemptStarted)
        root = bench.farm["n0"].root
        sample = root / "clusters/lab/jobs/j0/1/sample"
        await anyio.to_thread.run_sync(wait_for, sample.exists, "a sample")
        paths = [str(path) for path in sorted(root.rglob("*"))]
        python = shutil.which("python3", path="/usr/bin:/bin")
        if python is None:
            pytest.skip("needs a Python that everybody may run")
        tried = subprocess.run(  # noqa: ASYNC221  short
            [python, "-I", "-S", "-c", TRIES, *paths],
            user=STRANGER,
            group=stranger,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=True,
        )
    print(f"second user: {len(paths)} paths tried")
    assert tried.stdout.split("\n") == ["", ""]
    names = {path.rpartition("/")[2] for path in paths}
    assert {"started", "sample", "journal", "ranks.lock", "mine", "heartbeat"} <= names
