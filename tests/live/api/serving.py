"""A real daemon process on a cluster of this machine, and its command line."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from shunter.client import Client, JobHandle
from tests.contracts.local_backends import empty

PATIENCE_S = 120.0
CONFIG = """\
[[cluster.nodes]]
name = "{nodes}"
gpus = {gpus}
cpus = {cpus}
[policy]
trigger = "event"
[queues.default]
[queues.closed]
users = ["nobody-at-all"]
[backend]
kind = "local"
[backend.local]
root = "attempts"
grace = 0.3
restart = 0.3
patrol = 0.2
[server]
listen = ["unix:{root}/s", "tcp:127.0.0.1:0"]
token_file = "tokens"
{server}
[log]
url = "log.db"
"""


class Served:
    """A daemon in a folder; leaving it ends the daemon and all it started."""

    def __init__(
        self, root: Path, server: str = "", nodes: str = "n0", cpus: int = 0, gpus: int = 4
    ) -> None:
        self.root = root
        self.config = root / "site.toml"
        text = CONFIG.format(root=root, server=server, nodes=nodes, cpus=cpus, gpus=gpus)
        self.config.write_text(text, encoding="utf-8")
        self.url = f"unix:{root}/s"
        self.tcp = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._clients = ExitStack()

    def __enter__(self) -> "Served":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._clients.close()
        self.end(signal.SIGKILL)
        empty(str(self.root / "attempts"))

    def start(
        self,
        file_bytes_most: int | None = None,
        options: Sequence[str] = (),
        **variables: str,
    ) -> None:
        """Start the daemon, and wait until it says that it is ready.

        Args:
            file_bytes_most: no file of its may grow longer, as if the disk were full.
            options: what more is said to `shunter serve`.
            variables: what more is in its environment.
        """
        words = [
            sys.executable,
            "-m",
            "shunter",
            "serve",
            str(self.config),
            "--make-token",
            *options,
        ]
        said = self.root / "said"
        with said.open("wb") as file, in_the_foreground():
            self.process = subprocess.Popen(words, stderr=file, env=environment(**variables))
        if file_bytes_most is not None:
            limits = (file_bytes_most, file_bytes_most)
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, limits)
        found = awaited(lambda: re.search(r"^ready: .*", self.said(), re.MULTILINE), self.process)
        self.tcp = found.group().rpartition(", ")[2]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; return the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def said(self) -> str:
        """Return what the daemon wrote on stderr."""
        return (self.root / "said").read_text(encoding="utf-8")

    @property
    def token(self) -> str:
        """The token of the user who runs the tests."""
        lines = (self.root / "tokens").read_text(encoding="utf-8").splitlines()
        return next(line.split()[0] for line in lines if not line.startswith("#"))

    def client(self) -> Client:
        """Return a client on the socket."""
        return Client(self.url)

    def handle(self, job_id: str) -> JobHandle[int]:
        """Return a job by its id; its client lasts as long as the daemon."""
        return self._clients.enter_context(self.client()).handle(job_id)

    def http(self, **settings: Any) -> httpx.Client:
        """Return a bare client on the socket."""
        transport = httpx.HTTPTransport(uds=f"{self.root}/s")
        told = {"timeout": PATIENCE_S, **settings}  # a busy machine may take its time
        return httpx.Client(transport=transport, base_url="http://shunter", **told)

    def run(
        self, *words: str, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of shunter's against the daemon."""
        return subprocess.run(
            [sys.executable, "-m", "shunter", *words],
            env=environment(SHUNTER_URL=self.url, **variables),
            cwd=self.root,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


@contextmanager
def in_the_foreground() -> Iterator[None]:
    """Have what is begun meanwhile heed SIGINT and SIGHUP, as from a terminal.

    A process that a script has put into the background ignores SIGINT, one below nohup SIGHUP, and
    so would all that it begins.
    """
    before = {each: signal.signal(each, signal.SIG_DFL) for each in (signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def environment(**more: str) -> Mapping[str, str]:
    """Return the environment without anything that names a daemon, and with more."""
    here = {name: value for name, value in os.environ.items() if not name.startswith("SHUNTER_")}
    folder = str(Path(__file__).parents[3])
    return {**here, "PYTHONPATH": folder, "NO_COLOR": "1", **more}


def awaited(look: Any, process: subprocess.Popen[bytes] | None = None) -> Any:
    """Look until there is something; return it."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := look():
            return found
        if process is not None and process.poll() is not None:
            raise AssertionError(f"the daemon ended with {process.returncode}")
        time.sleep(0.02)
    raise AssertionError("it did not come to that")
