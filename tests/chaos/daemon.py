"""The scheduler of a run as the process it is in earnest: `shunter serve`, killed and started."""

import os
import re
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.chaos.forks import Commands
from tests.chaos.hosts import Hosts
from tests.chaos.scenario import HOSTS, Cluster

__all__ = ["Daemon", "commands", "write_config"]

FULL = re.compile("no space left", re.IGNORECASE)
STOP_S = 60.0
COMMAND_S = 120.0
CONFIG = """
schema = 1
[server]
listen = ["unix:{socket}"]
[cluster]
nodes = [{nodes}]
[policy]
name = "{policy}"
{trigger}
placement = "{placement}"
[policy.guards]
min_runtime = "1s"
[policy.params.{policy}]
{params}
[backend]
kind = "ssh"
[backend.ssh]
root = "{folder}/backend"
known_hosts = "{known_hosts}"
keys = ["{key}"]
python = "{python}"
checkpoints = "{checkpoints}"
user = "{user}"
connect = "5s"
keepalive = "0.5s"
heartbeat = "0.5s"
heartbeat_deadline = "{deadline_s}s"
margin = "4s"
call = "5s"
launch = "5s"
grace = "0.3s"
restart = "0.5s"
cooperative = "4s"
signal = "2s"
sample = "2s"
{hosts}
[log]
url = "{folder}/log.db"
snapshot_every = 40
"""
HOST = """
[backend.ssh.hosts.{name}]
address = "{address}"
base = "{base}"
"""


class Daemon:
    """The process, whether it is up or down; what it says is kept in a file."""

    def __init__(self, commands: Commands, config: Path, output: Path) -> None:
        self.complaints: list[tuple[str, str]] = []
        self.kills = 0
        self.starts = 0
        self.has_had_full_disk = False
        """Whether it may have ended with 1 by itself, saying that its disk is full."""
        self._commands = commands
        self._words = ("serve", str(config))
        self._output = output
        self._pid: int | None = None

    def start(self) -> None:
        """Start it, unless it is up."""
        if self._pid is None:
            self.starts += 1
            self._pid = self._commands.start(self._words, self._output)

    def kill(self) -> None:
        """Kill it without a word."""
        if self._pid is not None:
            self.kills += 1
            self._commands.kill(self._pid)
            self._pid = None

    def stop(self) -> None:
        """End it as an operator does; it must end well, and soon."""
        if self._pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        code = self._commands.wait(self._pid, STOP_S)
        if code is None:
            self.complaints.append(("daemon", f"did not stop within {STOP_S:.0f} s"))
            self.kill()
            return
        # The signal's own code: it came before the daemon had begun to listen to signals.
        if code not in (0, -signal.SIGTERM):
            self._ended_with(code)
        self._pid = None

    def look(self) -> None:
        """Start it again if it has ended by itself, which it has no business to do."""
        code = None if self._pid is None else self._commands.code(self._pid)
        if code is None:
            return
        self._ended_with(code)
        self._pid = None
        time.sleep(0.2)
        self.start()

    def tracebacks(self) -> list[tuple[str, str]]:
        """Return the tracebacks among what it has said: it says a line, or it is a fault."""
        found = self._said().split("Traceback (most recent call last)")[1:]
        return [("traceback", " | ".join(each.splitlines()[-8:])) for each in found]

    def _ended_with(self, code: int) -> None:
        last = " | ".join(self._said().splitlines()[-4:])
        if not (code == 1 and self.has_had_full_disk and FULL.search(last)):
            self.complaints.append(("daemon", f"ended by itself with {code}: {last}"))

    def _said(self) -> str:
        return self._output.read_text(errors="replace") if self._output.exists() else ""


def write_config(
    path: Path, cluster: Cluster, hosts: Hosts, *, folder: Path, socket: Path, shared: Path
) -> None:
    """Write the config of a run.

    Args:
        path: where.
        cluster: what was drawn.
        hosts: the hosts.
        folder: of the daemon's own files.
        socket: where it listens.
        shared: a folder that all hosts see, for checkpoints.
    """
    farm = hosts.farm
    event = 'trigger = "event"'
    trigger = event if cluster.trigger == "event" else f'round = "{cluster.trigger}"'
    tables = [
        HOST.format(name=name, address=farm[name].address, base=farm[name].root) for name in HOSTS
    ]
    text = CONFIG.format(
        socket=socket,
        nodes=", ".join(f'{{ name = "{name}", gpus = 2 }}' for name in HOSTS),
        policy=cluster.policy,
        params=cluster.params,
        trigger=trigger,
        placement=cluster.placement,
        folder=folder,
        known_hosts=farm.known_hosts,
        key=farm.key,
        python=sys.executable,
        checkpoints=shared if cluster.has_shared_checkpoints else "",
        user=farm.user,
        deadline_s=cluster.deadline_s,
        hosts="".join(tables),
    )
    path.write_text(text)


def commands(run: Commands, log: Path, exported: Path) -> list[tuple[str, str]]:
    """Hold the log to itself by the product's own commands; return what they found wrong."""
    wrong = []
    for number, words in enumerate(
        (
            ("log", "verify", "--schema", str(log)),
            ("replay", "--verify", str(log)),
            ("log", "export", str(log), "--output", str(exported)),
        )
    ):
        said = exported.with_name(f"command-{number}.txt")
        code = run.wait(run.start(words, said), COMMAND_S)
        if code != 0:
            last = " | ".join(said.read_text(errors="replace").splitlines()[-6:])
            wrong.append((" ".join(words[:2]), f"exit {code}: {last}"))
    return wrong
