"""What a launcher does with signals and with the ends of its ranks, measured on the real one.

    python -m tests.live.launchers.measured      writes docs/reference/launchers.json and .md

Each launcher starts two ranks that note which signals reach them, and leave at once on SIGTERM and
SIGINT. Python launchers are forked from a process that has imported them, which takes longest. What
is noted are sentences: what the launcher did, what its ranks heard, and what is left.
"""

import datetime as dt
import importlib.metadata
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from docs import launchers_page
from shunter.backends.node import processes
from tests.faults.supervised import is_alive, wait_for

QUIET_S, PATIENCE_S = 2.0, 60.0
LOOK_S = 0.05
SHARED = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
"""What a job of Shunter finds on one server, ranks by launchers or not."""
MEETING = {
    "MASTER_ADDR": "127.0.0.1",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "DS_ACCELERATOR": "cpu",
}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
AS_ROOT_5 = {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

RANK = """
import os, signal, sys, time
given = os.environ
folder, rank = given["NOTES"], given.get("OMPI_COMM_WORLD_RANK") or given["RANK"]
notes = os.open(f"{folder}/rank-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def heard(number, frame):
    os.write(notes, f"{signal.Signals(number).name} ".encode())
    if number in (signal.SIGTERM, signal.SIGINT):
        os._exit(75)
for name in ("TERM", "INT", "USR1", "USR2", "TSTP", "CONT"):
    signal.signal(getattr(signal, "SIG" + name), heard)
os.write(notes, f"{os.getpid()} ".encode())
while True:
    if os.path.exists(f"{folder}/leave"):
        how, of = open(f"{folder}/leave").read().split()
        if of in (rank, "all"):
            if how == "SIGTERM":
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGTERM)
            os._exit(int(how))
    time.sleep(0.02)
"""
WARM = """
import importlib, json, os, signal, sys
for name in sys.argv[1].split(","):
    importlib.import_module(name)
print("ready", flush=True)
for line in sys.stdin:
    told = json.loads(line)
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        continue
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have ignored
    os.environ.clear()
    os.environ.update(told["environment"])
    for number in (0, 1, 2):
        path = os.devnull if number == 0 else told["output"]
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), number)
    sys.argv = told["argv"]
    module, _, function = told["entry"].partition(":")
    sys.exit(getattr(importlib.import_module(module), function)())
"""


@dataclass(frozen=True)
class Launcher:
    """How one is called, and where it is from.

    Attributes:
        name: as users write it.
        package: of which its version is shown; "": a program of the machine.
        entry: module and function of its command; "": `words` begins with a program.
        words: its arguments before the script.
        ranks: how many it starts.
        brings: what would install it.
    """

    name: str
    package: str
    entry: str
    words: tuple[str, ...]
    ranks: int
    brings: str

    @property
    def lacks(self) -> str:
        """Why it cannot be tried here; empty if it can."""
        if self.package:
            is_here = importlib.util.find_spec(self.package) is not None
        else:
            is_here = shutil.which(self.words[0]) is not None
        return "" if is_here else f"{self.name} is not installed: {self.brings}"

    @property
    def version(self) -> str:
        """Whose version it is, and which."""
        if self.package:
            said = importlib.metadata.version(self.package)
            return f"{self.package} {said.partition('+')[0]}"
        ran = subprocess.run(
            [self.words[0], "--version"], capture_output=True, text=True, check=True
        )
        return ran.stdout.splitlines()[0].replace("mpirun (", "").replace(")", "")

    def argv(self, script: Path) -> list[str]:
        """Return its command line, with a name in place of a program where it has an entry."""
        return [*([self.name] if self.entry else []), *self.words, str(script)]


TORCHRUN = ("--standalone", "--nproc-per-node", "2")
ACCELERATE = ("launch", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
MPIRUN = ("mpirun", "-n", "2", "--oversubscribe", sys.executable)
BY_TORCH = ("torch", "torch.distributed.run:main")
BY_ACCELERATE = ("accelerate", "tests.live.launchers.measured:accelerate")
BY_DEEPSPEED = ("deepspeed", "deepspeed.launcher.runner:main")
LIVE, DEEPSPEED, DEBIAN = "make live", "pip install deepspeed", "apt-get install openmpi-bin"
LAUNCHERS = {
    each.name: each
    for each in (
        Launcher("torchrun", *BY_TORCH, TORCHRUN, 2, LIVE),
        Launcher(
            "torchrun --max-restarts 1", *BY_TORCH, (*TORCHRUN, "--max-restarts", "1"), 2, LIVE
        ),
        Launcher(
            "accelerate launch, of one process",
            *BY_ACCELERATE,
            (*ACCELERATE, "--cpu", "--num_processes", "1"),
            1,
            LIVE,
        ),
        Launcher(
            "accelerate launch, of several",
            *BY_ACCELERATE,
            (*ACCELERATE, "--multi_gpu", "--num_processes", "2"),
            2,
            LIVE,
        ),
        Launcher("deepspeed", *BY_DEEPSPEED, ("--num_gpus", "2", "--no_local_rank"), 2, DEEPSPEED),
        Launcher("mpirun", "", "", MPIRUN, 2, DEBIAN),
    )
}
SIGNALS = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGTSTP", "SIGSTOP, SIGCONT")
ALL = "all leave with 75"
ENDS = {
    ALL: "75 all",
    "one leaves with 75": "75 last",
    "one dies of SIGTERM": "SIGTERM last",
}
"""The end of its ranks, as `RANK` is told to have it."""


def accelerate() -> None:
    """Be `accelerate`; that it may begin several ranks it is told of GPUs that are not there."""
    import torch
    from accelerate.commands.accelerate_cli import main

    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 2
    main()


class Running:
    """A launcher under way, and its ranks.

    Args:
        pid: its process.
        folder: where its ranks note what they get.
        ranks: how many it starts.
    """

    def __init__(self, pid: int, folder: Path, ranks: int) -> None:
        self.pid, self.folder = pid, folder
        self._notes = [folder / f"rank-{rank}" for rank in range(ranks)]
        wait_for(lambda: len(self.rank_pids()) == ranks, "ranks", self._output)

    def _output(self) -> str:
        path = self.folder / "output"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def _words(self) -> list[list[str]]:
        return [path.read_text().split() if path.exists() else [] for path in self._notes]

    def heard(self) -> list[set[str]]:
        """Return which signals each rank has heard so far; those started again count as well."""
        return [{word for word in words if word.startswith("SIG")} for words in self._words()]

    def rank_pids(self) -> list[int]:
        """Return the processes of all ranks, those that were started again included."""
        return [int(word) for words in self._words() for word in words if word.isdecimal()]

    def has_ended(self) -> bool:
        """Say whether the launcher has."""
        return not is_alive(self.pid)

    def _state(self) -> tuple[object, ...]:
        pids = [self.pid, *self.rank_pids()]
        return self._words(), [(is_alive(pid), _is_still(pid)) for pid in pids], _busy(self.pid)

    def settle(self) -> None:
        """Wait until all is over, or nothing happens any more.

        A launcher without ranks ends, or starts others; on a busy machine that takes its time.
        """
        before, since_s = self._state(), time.monotonic()
        while True:
            is_left = any(map(is_alive, self.rank_pids()))
            if self.has_ended() and not is_left:
                return
            if time.monotonic() - since_s > (QUIET_S if is_left else PATIENCE_S):
                return
            time.sleep(LOOK_S)
            now = self._state()
            if now != before:
                before, since_s = now, time.monotonic()

    def end(self) -> None:
        """Leave nothing running."""
        mark = f"NOTES={self.folder}".encode()
        for pid in processes():
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)


def _busy(pid: int) -> int:
    """Return what tells that a process has worked: fifths of a second of its CPU time."""
    with suppress(OSError):
        said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(said[11]) + int(said[12])) // 20
    return 0


def _is_still(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


class Warm:
    """A process that has imported some launchers, and forks one for each time it runs."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", WARM, ",".join(modules)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        while self._line() != "ready\n":  # some libraries greet whoever imports them
            continue

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process that launchers are forked from has ended"
        return line

    def starts(self, launcher: Launcher, script: Path, environment: Mapping[str, str]) -> int:
        """Start a launcher; return its process."""
        told = {
            "entry": launcher.entry,
            "argv": launcher.argv(script),
            "environment": dict(environment),
            "output": f"{environment['NOTES']}/output",
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def ended(self) -> int:
        """Wait for the end of the one that was started last; return its status."""
        return int(self._line())

    def close(self) -> None:
        """End it."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


class Bench:
    """Starts launchers in folders of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        modules = [
            each.package if "tests." in each.entry else each.entry.partition(":")[0]
            for each in LAUNCHERS.values()
            if each.entry and not each.lacks
        ]
        self._warm = Warm(sorted({*modules}))

    def close(self) -> None:
        """End what launchers were forked from."""
        self._warm.close()

    @contextmanager
    def running(self, launcher: Launcher) -> Iterator[tuple[Running, "Ended"]]:
        """Start a launcher; at the end nothing of it is left."""
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        script = folder / "rank.py"
        script.write_text(RANK)
        port = {"MASTER_PORT": str(20_000 + os.getpid() % 5_000 + self._count)}
        own = {**MEETING, **SHARED, **AS_ROOT, **AS_ROOT_5, **port, "NOTES": str(folder)}
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        paths = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**kept, **own, "PYTHONPATH": os.pathsep.join(paths)}
        if launcher.entry:
            pid = self._warm.starts(launcher, script, environment)
            ended = Ended(self._warm.ended)
        else:
            with (folder / "output").open("wb") as output:
                process = subprocess.Popen(
                    launcher.argv(script),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            pid, ended = process.pid, Ended(process.wait)
        running = None
        try:
            running = Running(pid, folder, launcher.ranks)
            yield running, ended
        finally:
            if running is not None:
                running.end()
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            ended()


class Ended:
    """The status of a launcher, asked for once."""

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask = ask
        self._code: int | None = None

    def __call__(self) -> int:
        if self._code is None:
            self._code = self._ask()
        return self._code


def came_of(bench: Bench, launcher: Launcher, what: str) -> str:
    """Send a signal to a launcher alone, or let its ranks end; return what came of it.

    Args:
        bench: starts it.
        launcher: which.
        what: one of `SIGNALS` or `ENDS`.
    """
    with bench.running(launcher) as (running, ended):
        if what in ENDS:
            fresh = running.folder / "leave.new"  # a file is there whole or not at all
            fresh.write_text(ENDS[what].replace("last", str(launcher.ranks - 1)))
            fresh.rename(running.folder / "leave")
        else:
            for each in what.split(", "):
                os.kill(running.pid, getattr(signal, each))
                if each == "SIGSTOP":
                    time.sleep(0.5)
        running.settle()
        # Where all leave, whether a launcher ends some of them before is a matter of microseconds.
        return _sentence(running, ended, tells_heard=what != ALL)


def _sentence(running: Running, ended: Ended, *, tells_heard: bool) -> str:
    if running.has_ended():
        code = ended()
        launcher = f"ends by {signal.Signals(-code).name}" if code < 0 else f"ends with {code}"
    else:
        launcher = "stands still" if _is_still(running.pid) else "runs on"
    alive = [pid for pid in running.rank_pids() if is_alive(pid)]
    if not alive:
        left = "none is left"
    elif any(map(_is_still, alive)):
        left = "they stand still"
    else:
        left = "they are left running" if running.has_ended() else "they run on"
    if len(running.rank_pids()) > len(running.heard()):
        left += ", after they were started again"
    if not tells_heard:
        return f"{launcher}; {left}"
    # Open MPI sends SIGCONT before SIGTERM, and Python handles the lower number first.
    heard = sorted({_name(each) for each in running.heard()} - {""})
    return f"{launcher}; ranks get {' or '.join(heard) or 'nothing'}, {left}"


def _name(heard: set[str]) -> str:
    return " ".join(sorted(heard - {"SIGCONT"} if len(heard) > 1 else heard))


def events(launcher: Launcher) -> list[str]:
    """Return what is tried with a launcher: of one rank, all and one are the same."""
    return [*SIGNALS, *(what for what in ENDS if launcher.ranks > 1 or what != ALL)]


def main() -> None:
    """Measure each launcher that is here, and write data and page."""
    kept = launchers_page.kept()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))
        try:
            for launcher in LAUNCHERS.values():
                if launcher.lacks:
                    print(launcher.lacks)
                    continue
                kept[launcher.name] = {
                    "version": launcher.version,
                    "date": dt.datetime.now(dt.UTC).date().isoformat(),
                    "rows": {what: came_of(bench, launcher, what) for what in events(launcher)},
                }
                print(json.dumps(kept[launcher.name], indent=1))
        finally:
            bench.close()
    kept = {name: kept[name] for name in LAUNCHERS if name in kept}
    launchers_page.DATA.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    launchers_page.PAGE.write_text(launchers_page.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
