"""Other simulators on jobs first in, first out: whether each is installed, and what a run takes."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which

from benchmarks.commands import ran

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Queue:
    """Jobs in a file, a line each: submission and duration in seconds, and GPUs; and servers."""

    path: Path
    gpus: int
    servers: int


@dataclass(frozen=True)
class PeerRun:
    """A run of a peer: CPU seconds of its event loop and of the process, and the mean JCT."""

    loop_cpu_s: float
    process_cpu_s: float
    jct_s: float


@dataclass(frozen=True)
class Peer:
    """Another simulator: its name with the version, and how it plays jobs.

    `run` None: it is not installed, and `lacks` says how to install it.
    """

    name: str
    lacks: str
    run: Callable[[Queue], PeerRun] | None


def simpy() -> Peer:
    """Return SimPy."""
    return _python_peer("SimPy", "simpy", "4.1.2", "simpy_fifo.py", lambda queue: [])


def accasim() -> Peer:
    """Return AccaSim, which places on servers, and so is told how many there are."""
    words = lambda queue: [str(queue.servers)]  # noqa: E731  # as for SimPy
    return _python_peer("AccaSim", "accasim", "1.1.3", "accasim_fifo.py", words)


def simgrid(folder: Path) -> Peer:
    """Return SimGrid, for which a program is compiled into a folder."""
    lacks = "not installed: apt-get install g++ libsimgrid-dev (SimGrid 3.32)"
    program, source = folder / "simgrid_fifo", HERE / "simgrid_fifo.cpp"
    if which("g++") is None:
        return Peer("SimGrid", lacks, None)
    command = ["g++", "-O2", "-o", str(program), str(source), "-lsimgrid"]
    compiled = subprocess.run(command, check=False, capture_output=True)
    if compiled.returncode:
        return Peer("SimGrid", lacks, None)
    said = subprocess.run([program, "--version"], check=False, capture_output=True, text=True)
    words = said.stdout.split()
    place = words.index("version") + 1 if "version" in words else len(words)
    name = " ".join(["SimGrid", *words[place : place + 1]])
    return Peer(name, "", lambda queue: _run([str(program)], queue, []))


def _python_peer(
    name: str, package: str, wanted: str, script: str, more: Callable[[Queue], list[str]]
) -> Peer:
    try:
        found = version(package)
    except PackageNotFoundError:
        return Peer(name, f"not installed: pip install {package}=={wanted}", None)
    program = [sys.executable, str(HERE / script)]
    return Peer(f"{name} {found}", "", lambda queue: _run(program, queue, more(queue)))


def _run(program: list[str], queue: Queue, more: list[str]) -> PeerRun:
    done = ran([*program, str(queue.path), str(queue.gpus), *more])
    document = json.loads(done.printed)
    return PeerRun(document["loop_cpu_s"], done.cpu_s, document["jct_s"])
