"""What a launcher does with signals and with the ends of its ranks, measured on the real one.

    python -m tests.live.launchers.measured      writes docs/reference/launchers.json and .md

Each launcher starts two ranks that note which signals reach them, and leave at once on SIGTERM and
SIGINT. Python launchers are forked from a process that has imported them, which takes longer than
all else. What is noted are sentences: what the launcher did, what its ranks heard, and what is left.
"""

import datetime
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from docs import launchers_page
from shunter.backends.node import processes
from tests.faults.supervised import is_alive, wait_for
from tests.live.ssh.farm import descendants

QUIET_S = 2.0
LOOK_S = 0.05
SHARED = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
"""What a job of Shunter finds on one server, ranks by launchers or not."""
MEETING = {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
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
import importlib, json, os, sys
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
        ran = subprocess.run([self.words[0], "--version"], capture_output=True, text=True, check=True)
        return ran.stdout.splitlines()[0].replace("mpirun (", "").replace(")", "")

    def argv(self, script: Path) -> list[str]:
        """Return its command line, with a name in place of a program where it has an entry."""
        return [*([self.name] if self.entry else []), *self.words, str(script)]


TORCHRUN = ("--standalone", "--nproc-per-node", "2")
MPIRUN = ("mpirun", "-n", "2", "--oversubscribe", sys.executable)
LAUNCHERS = {
    each.name: each
    for each in (
        Launcher("torchrun", "torch", "torch.distributed.run:main", TORCHRUN, 2, "make live"),
        Launcher(
            "torchrun --max-restarts 1",
            "torch",
            "torch.distributed.run:main",
            (*TORCHRUN, "--max-restarts", "1"),
            2,
            "make live",
        ),
        Launcher(
            "accelerate launch, one process",
            "accelerate",
            "accelerate.commands.accelerate_cli:main",
            ("launch", "--cpu", "--num_processes", "1", "--num_machines", "1")
            + ("--mixed_precision", "no", "--dynamo_backend", "no"),
            1,
            "make live",
        ),
        Launcher(
            "accelerate launch, several",
            "accelerate",
            "tests.live.launchers.measured:accelerate_over_torchrun",
            ("launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1")
            + ("--mixed_precision", "no", "--dynamo_backend", "no"),
            2,
            "make live",
        ),
        Launcher(
            "deepspeed",
            "deepspeed",
            "deepspeed.launcher.runner:main",
            ("--num_gpus", "2", "--no_local_rank"),
            2,
            "pip install deepspeed",
        ),
        Launcher("mpirun", "", "", MPIRUN, 2, "apt-get install openmpi-bin"),
    )
}
SIGNALS = ("TERM", "INT", "USR1", "USR2", "TSTP", "STOP, CONT")
ENDS = {"75 all": "all leave with 75", "75 last": "one leaves with 75", "SIGTERM last": "one dies of SIGTERM"}


def accelerate_over_torchrun() -> None:
    """Run `accelerate launch` for several GPUs on a machine without any: it hands on to torchrun."""
    from accelerate.commands import launch

    launch.torch.cuda.is_available = lambda: True
    launch.torch.cuda.device_count = lambda: 2
    from accelerate.commands.accelerate_cli import main

    main()


class Running:
    """A launcher under way, and its ranks."""

    def __init__(self, pid: int, folder: Path, ranks: int) -> None:
        self.pid, self._folder, self._ranks = pid, folder, ranks
        self.code: int | None = None
        self.rank_pids = [int(wait_for(self._notes_of(rank), "a rank", self._output)) for rank in range(ranks)]
        self._known = {*descendants(pid), pid}

    def _notes_of(self, rank: int):  # type: ignore[no-untyped-def]
        path = self._folder / f"rank-{rank}"
        return lambda: path.exists() and path.read_text().partition(" ")[0]

    def _output(self) -> str:
        path = self._folder / "output"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def heard(self) -> list[list[str]]:
        """Return which signals each rank has heard so far, in order; new ranks count on."""
        texts = [(self._folder / f"rank-{rank}").read_text().split() for rank in range(self._ranks)]
        return [[word for word in words if word.startswith("SIG")] for words in texts]

    def begun(self) -> int:
        """Return how many ranks were started, those that were started again included."""
        texts = [(self._folder / f"rank-{rank}").read_text().split() for rank in range(self._ranks)]
        return sum(word.isdecimal() for words in texts for word in words)

    def state(self) -> tuple[object, ...]:
        """Return all that can be seen of it."""
        return (
            self.has_ended(),
            _is_still(self.pid),
            tuple(is_alive(pid) for pid in self.rank_pids),
            tuple(_is_still(pid) for pid in self.rank_pids),
            str(self.heard()),
            self.begun(),
        )

    def has_ended(self) -> bool:
        return not is_alive(self.pid)

    def settle(self) -> None:
        """Wait until nothing has changed for a while, or all is over."""
        before, since_s = self.state(), time.monotonic()
        while time.monotonic() - since_s < QUIET_S:
            self._known.update(descendants(self.pid))
            if self.has_ended() and not any(map(is_alive, self.rank_pids)):
                return
            time.sleep(LOOK_S)
            now = self.state()
            if now != before:
                before, since_s = now, time.monotonic()

    def end(self) -> None:
        """Leave nothing running."""
        mark = f"NOTES={self._folder}".encode()
        for pid in sorted({*self._known, *processes()}):
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)


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
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

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
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Bench:
    """Starts launchers in folders of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        modules = [
            each.entry.partition(":")[0]
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
        environment = {**kept, **own, "PYTHONPATH": str(Path(__file__).parents[3])}
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

    def __init__(self, ask) -> None:  # type: ignore[no-untyped-def]
        self._ask, self._code = ask, None

    def __call__(self) -> int:
        if self._code is None:
            self._code = self._ask()
        return self._code


def after_signal(bench: Bench, launcher: Launcher, name: str) -> str:
    """Send a signal to a launcher alone; return what came of it."""
    with bench.running(launcher) as (running, ended):
        for each in name.split(", "):
            os.kill(running.pid, getattr(signal, f"SIG{each}"))
            if each == "STOP":
                time.sleep(0.5)
        running.settle()
        return _sentence(running, ended)


def after_end(bench: Bench, launcher: Launcher, how: str) -> str:
    """Let ranks of a launcher end; return what came of it."""
    with bench.running(launcher) as (running, ended):
        said = how.replace("last", str(launcher.ranks - 1))
        fresh = running._folder / "leave.new"  # noqa: SLF001  a file is there whole or not at all
        fresh.write_text(said)
        fresh.rename(running._folder / "leave")  # noqa: SLF001
        running.settle()
        return _sentence(running, ended)


def _sentence(running: Running, ended: Ended) -> str:
    if running.has_ended():
        code = ended()
        launcher = f"ends by {signal.Signals(-code).name}" if code < 0 else f"ends with {code}"
    else:
        launcher = "stands still" if _is_still(running.pid) else "runs on"
    heard = sorted({" ".join(each) for each in running.heard()} - {""})
    alive = [pid for pid in running.rank_pids if is_alive(pid)]
    if not alive:
        left = "none is left"
    elif any(_is_still(pid) for pid in alive):
        left = "they stand still"
    else:
        left = "they are left running" if running.has_ended() else "they run on"
    if running.begun() > len(running.rank_pids):
        left += ", but started again"
    return f"{launcher}; ranks get {' or '.join(heard) or 'nothing'}, {left}"


def measure(bench: Bench, launcher: Launcher) -> dict[str, dict[str, str]]:
    """Return all rows of a launcher."""
    ends = {
        title: after_end(bench, launcher, how)
        for how, title in ENDS.items()
        if launcher.ranks > 1 or "last" in how
    }
    return {
        "signals": {name: after_signal(bench, launcher, name) for name in SIGNALS},
        "ends": ends,
    }


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
                    "date": datetime.date.today().isoformat(),
                    **measure(bench, launcher),
                }
                print(json.dumps(kept[launcher.name], indent=1))
        finally:
            bench.close()
    kept = {name: kept[name] for name in LAUNCHERS if name in kept}
    launchers_page.DATA.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    launchers_page.PAGE.write_text(launchers_page.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
