"""What `save` writes in the background is waited for, and is not cut off by the end."""

import itertools
import multiprocessing
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from shunter.train import channel, leaving
from shunter.train.checkpoints import Checkpoints
from tests.unit.train.test_checkpoints import store

GROWS = "while read _; do echo x >> $0; echo; done"
HOLDS = 'read path; exec 3> "$path"; echo; read _; echo whole >&3; exec 3>&-; echo; read _'


class Writer(threading.Thread):
    """Writes a file once somebody waits for it."""

    def __init__(self, path: Path, *, daemon: bool = False) -> None:
        super().__init__(daemon=daemon)
        self.path, self.is_waited_for = path, threading.Event()

    def run(self) -> None:
        if self.is_waited_for.wait(60):
            self.path.write_text("whole")

    def join(self, timeout: float | None = None) -> None:
        self.is_waited_for.set()
        super().join(timeout)

    def result(self) -> None:
        self.join()


def begins(begin: Callable[[Path], object]) -> Callable[[Path], object]:
    """Return a `save` that writes an index, and begins to write the file `weights`."""

    def save(folder: Path) -> object:
        (folder / "index").touch()
        return begin(folder / "weights")

    return save


def written(root: Path, save: Callable[[Path], object]) -> str:
    """Save; return what `weights` holds then."""
    folder, _ = store(root).write(1, {}, save)
    return (folder / "weights").read_text().strip()


def future(path: Path) -> Writer:
    """Return one that writes once its result is asked for."""
    writer = Writer(path, daemon=True)
    writer.start()
    return writer


@pytest.mark.parametrize(
    "begin",
    [
        lambda path: Writer(path).start(),
        lambda path: Writer(path, daemon=True).start(),
        future,
        lambda path: [future(path)],
    ],
    ids=["thread", "daemon", "future", "futures"],
)
def test_what_writes_is_waited_for(tmp_path: Path, begin: Callable[[Path], object]) -> None:
    assert written(tmp_path, begins(begin)) == "whole"


class Silent(threading.Thread):
    """Writes a file, but computes until somebody has asked for it several times."""

    def __init__(self, path: Path, asked: int) -> None:
        super().__init__(daemon=True)
        self.path, self.left, self.has_computed = path, asked, threading.Lock()
        self.has_computed.acquire()

    def run(self) -> None:
        with self.has_computed:
            self.path.write_text("whole")

    def join(self, timeout: float | None = None) -> None:
        self.left -= 1
        if not self.left:
            self.has_computed.release()
        super().join(timeout)


def test_daemon_that_computes_for_long_before_it_writes_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "_DAEMON_WAIT_S", 0.0)
    save = begins(lambda path: Silent(path, asked=3).start())
    assert written(tmp_path, save) == "whole"


class FromQueue(Silent):
    """Is there before `save` is called, which gives it paths to write."""

    def __init__(self) -> None:
        super().__init__(Path(), asked=2)
        self.paths: queue.Queue[Path] = queue.Queue()

    def run(self) -> None:
        while True:
            self.path = self.paths.get()
            super().run()


def test_daemon_that_save_gives_work_to_is_waited_for(tmp_path: Path) -> None:
    writer = FromQueue()
    writer.start()
    while not leaving.alive().threads[writer]:
        time.sleep(0.001)
    assert written(tmp_path, begins(writer.paths.put)) == "whole"


def test_daemon_that_only_waits_for_work_does_not_keep_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "_DAEMON_WAIT_S", 0.0)
    begun = FromQueue()
    store(tmp_path).write(1, {}, begins(lambda _: begun.start()))
    assert begun.left == 1


def test_checkpoint_whose_daemon_is_at_work_for_ever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[Callable[[], object]]
) -> None:
    monkeypatch.setattr(leaving, "_DAEMON_WAIT_S", 0.0)
    monkeypatch.setattr(leaving, "_LOOK_EVERY_S", 0.0)
    begun = Silent(tmp_path / "late", asked=0)
    with pytest.raises(OSError, match="is still at work after 120 s: let `save` wait for it"):
        store(tmp_path).write(1, {}, begins(lambda _: begun.start()))
    assert not clock
    begun.has_computed.release()


def test_folder_that_save_leaves_empty_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="`save` has written nothing into"):
        store(tmp_path).write(1, {}, lambda folder: (folder / "below").mkdir())
    assert store(tmp_path).latest() is None


def test_rank_that_leaves_writing_to_the_first_one_is_not_refused(tmp_path: Path) -> None:
    second = Checkpoints(tmp_path, attempt=1, rank=1, world=2)
    second.write(1, {}, lambda _: None)
    assert [path.name for path in sorted(tmp_path.rglob("*.json"))] == ["rank-1.json"]


def test_folder_that_orbax_has_not_finished_is_no_checkpoint(tmp_path: Path) -> None:
    def save(folder: Path) -> None:
        (folder / "model.orbax-checkpoint-tmp").mkdir()
        (folder / "model.orbax-checkpoint-tmp" / "array").touch()

    with pytest.raises(OSError, match=r"model\.orbax-checkpoint-tmp is not finished"):
        store(tmp_path).write(1, {}, save)


class Proxy:
    """Raises whenever it is asked for what it stands for, as lazy modules and contexts may."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"asked for {name}")


def test_writers_of_orbax_are_found_and_proxies_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AsyncCheckpointer:
        def wait_until_finished(self) -> None:
            (tmp_path / "weights").touch()

    module = SimpleNamespace(AsyncCheckpointer=AsyncCheckpointer)
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", module)
    alive = [Proxy(), AsyncCheckpointer()]
    leaving.wait_for_writers(tmp_path, None, leaving.alive(), may_be_empty=False)
    assert len(alive) == 2
    assert (tmp_path / "weights").exists()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """A clock that moves where it is waited for, and what else happens then."""
    now = itertools.count()
    happens: list[Callable[[], object]] = []

    def sleep(_: float) -> None:
        for each in happens:
            each()

    monkeypatch.setattr(time, "monotonic", lambda: next(now) / 10)
    monkeypatch.setattr(time, "sleep", sleep)
    return happens


def test_folder_is_quiet_once_nothing_was_written_for_a_second(
    tmp_path: Path, clock: list[Callable[[], object]]
) -> None:
    left = [b"x"] * 30

    def grow() -> None:
        with (tmp_path / "weights").open("ab") as file:
            file.write(left.pop() if left else b"")

    clock.append(grow)
    leaving._wait_until_quiet(tmp_path)
    assert (tmp_path / "weights").stat().st_size == 30


def test_folder_that_never_stops_to_grow_is_refused(
    tmp_path: Path, clock: list[Callable[[], object]]
) -> None:
    numbers = itertools.count()

    def grow() -> None:
        (tmp_path / str(next(numbers))).touch()

    clock.append(grow)
    with pytest.raises(OSError, match="still grows after 120 s"):
        leaving._wait_until_quiet(tmp_path)


def shell(program: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["sh", "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def say(to: subprocess.Popen[str], line: str = "") -> None:
    assert to.stdin is not None
    to.stdin.write(f"{line}\n")
    to.stdin.flush()


def hear(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    process.stdout.readline()


@pytest.mark.parametrize("first", ["sleep 0.5", "echo half > $0; sleep 0.5"])
def test_process_that_save_begins_is_waited_for(tmp_path: Path, first: str) -> None:
    with ExitStack() as begun:

        def begin(path: Path) -> None:
            begun.enter_context(shell(f"{first}; echo whole > $0", path))

        assert written(tmp_path, begins(begin)) == "whole"


def test_how_a_process_has_ended_is_left_for_the_script_to_read(tmp_path: Path) -> None:
    begun = []

    def save(folder: Path) -> None:
        begun.append(subprocess.Popen(["sh", "-c", "echo > $0; exit 3", folder / "weights"]))

    store(tmp_path).write(1, {}, save)
    assert begun[0].wait() == 3


def test_folder_that_a_process_never_stops_to_write_into_is_refused(
    tmp_path: Path, clock: list[Callable[[], object]]
) -> None:
    with ExitStack() as begun:

        def save(folder: Path) -> None:
            (folder / "index").touch()
            writer = begun.enter_context(shell(GROWS, folder / "weights"))
            clock.extend([lambda: say(writer), lambda: hear(writer)])

        with pytest.raises(OSError, match="still grows after 120 s: let `save` wait"):
            store(tmp_path).write(1, {}, save)
    assert store(tmp_path).latest() is None


def test_process_that_goes_on_and_writes_no_more_does_not_keep_a_checkpoint(
    tmp_path: Path, clock: list[Callable[[], object]]
) -> None:
    with ExitStack() as begun:

        def save(folder: Path) -> None:
            hear(begun.enter_context(shell("echo whole > $0; echo; read _", folder / "weights")))

        folder, _ = store(tmp_path).write(1, {}, save)
        assert not clock
        assert store(tmp_path).latest() == folder


def test_daemon_of_multiprocessing_that_save_begins_costs_a_second_of_quiet(
    tmp_path: Path, clock: list[Callable[[], object]]
) -> None:
    waits = multiprocessing.get_context("fork").Event()
    begun = multiprocessing.get_context("fork").Process(target=waits.wait, daemon=True)

    def save(folder: Path) -> None:
        (folder / "weights").touch()
        begun.start()

    since = time.monotonic()
    store(tmp_path).write(1, {}, save)
    assert not clock
    assert 1 < time.monotonic() - since < 5
    waits.set()
    begun.join()


def test_process_that_was_there_before_is_waited_for_while_it_has_a_file_open(
    tmp_path: Path, clock: list[Callable[[], object]]
) -> None:
    with shell(HOLDS, tmp_path) as writer:

        def begin(path: Path) -> None:
            say(writer, f"{path}")
            hear(writer)
            clock.extend([lambda: say(writer), lambda: hear(writer), clock.clear])

        assert written(tmp_path, begins(begin)) == "whole"


def test_checkpoint_of_which_a_process_never_closes_a_file_is_refused(
    tmp_path: Path, clock: list[Callable[[], object]]
) -> None:
    with shell(HOLDS, tmp_path) as writer:

        def save(folder: Path) -> None:
            say(writer, f"{folder / 'weights'}")
            hear(writer)

        with pytest.raises(OSError, match=f"process {writer.pid} still has a file of .* open"):
            store(tmp_path).write(1, {}, save)
        assert not clock


SCRIPT = """
import sys, threading
from shunter import train
from shunter.train.leaving import leave_at_once
is_ending = threading.Event()
def write():
    is_ending.wait()
    open(sys.argv[1], "w").write("whole")
class Pool:
    def __init__(self):
        from concurrent.futures import ThreadPoolExecutor
        ThreadPoolExecutor(1).submit(write)
{"thread": lambda: threading.Thread(target=write).start(), "pool": Pool}[sys.argv[2]]()
try:
    leave_at_once()
finally:
    is_ending.set()  # the interpreter ends as it does, after this thread
"""


@pytest.mark.parametrize("kind", ["thread", "pool"])
def test_run_leaves_after_what_still_writes(tmp_path: Path, kind: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "weights"), kind], check=False, timeout=60
    )
    assert ran.returncode == channel.EXIT_SUSPENDED
    assert (tmp_path / "weights").read_text() == "whole"
