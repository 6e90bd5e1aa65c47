"""sshd hosts that can be cut off and powered off, each in namespaces of its own.

A host is a machine as far as a test can tell: its own address on a bridge, its own processes, which
all die when its first one is killed, and its own name. Files are shared. It takes root.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tests.live.ssh.farm import LACKING, PATIENCE_S, Farm, FarmHost, descendants, name_of, parent_of

PROGRAMS = ("ip", "iptables", "unshare")


class Namespaces(Farm):
    """A farm whose hosts hang on a bridge."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.tag = f"{os.getpid():x}"
        self.network = f"10.{64 + os.getpid() // 250 % 128}.{os.getpid() % 250}"
        self.bridge = f"sb{self.tag}"
        self.ahead_s: dict[str, tuple[int, int]] = {}
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "addr", "add", f"{self.network}.1/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")
        super().__init__(folder, names)
        for number, host in enumerate(self.hosts.values()):
            self._connect(host, number)

    def cut(self, name: str) -> None:
        """Take the link of a host down."""
        run("ip", "link", "set", self._link(name), "down")

    def heal(self, name: str) -> None:
        """Take the link of a host up again."""
        run("ip", "link", "set", self._link(name), "up")

    def drop(self, name: str) -> None:
        """Let a host hear nothing any more, and nobody told so."""
        inside = ("ip", "netns", "exec", self._space(name))
        run(*inside, "iptables", "-I", "INPUT", "-i", "eth0", "-j", "DROP")

    def undrop(self, name: str) -> None:
        """Let a host hear again."""
        inside = ("ip", "netns", "exec", self._space(name))
        run(*inside, "iptables", "-D", "INPUT", "-i", "eth0", "-j", "DROP")

    def freeze(self, name: str) -> None:
        """Stop all processes of a host, as a hypervisor would; its kernel still takes packets."""
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Let the processes of a host go on."""
        self._signal(name, signal.SIGCONT)

    def thaw_sessions(self, name: str) -> None:
        """Let only those processes of a host go on that serve connections, and no job."""
        self._signal(name, signal.SIGCONT, "sshd")

    def power_off(self, name: str) -> None:
        """Kill the first process of a host, and with it all others; nothing answers any more."""
        process = self.hosts[name].process
        assert process is not None, f"{name} does not run"
        self.cut(name)
        for pid in descendants(process.pid)[:1]:  # the one that is 1 in there
            os.kill(pid, signal.SIGKILL)
        process.wait()
        self.hosts[name].process = None

    def power_on(self, name: str) -> None:
        """Start a host that was powered off."""
        self.heal(name)
        self.start(name)

    def close(self) -> None:
        """Power all hosts off, and remove their network."""
        for name, host in self.hosts.items():
            if host.process is not None:
                self.power_off(name)
        for name in self.hosts:
            for _ in range(100):  # a namespace lives as long as its last process
                if not run("ip", "netns", "pids", self._space(name), check=False):
                    break
                time.sleep(0.02)
            run("ip", "netns", "del", self._space(name), check=False)
            run("ip", "link", "del", self._link(name), check=False)
        run("ip", "link", "del", self.bridge, check=False)

    def _host(self, number: int, name: str) -> FarmHost:
        return FarmHost(name, f"{self.network}.{10 + number}", 22, self.folder / name)

    def trust(self, *names: str) -> None:
        """Write the file of known hosts with the keys of some of them."""
        lines = [f"{self.hosts[name].address} {self.hosts[name].key()}\n" for name in names]
        self.known_hosts.write_text("".join(lines))

    def _connect(self, host: FarmHost, number: int) -> None:
        space, link = self._space(host.name), self._link(host.name)
        run("ip", "netns", "add", space)
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "link", "set", link, "master", self.bridge)
        run("ip", "link", "set", link, "up")
        run("ip", "-n", space, "addr", "add", f"{host.address}/24", "dev", "eth0")
        run("ip", "-n", space, "link", "set", "lo", "up")
        run("ip", "-n", space, "link", "set", "eth0", "up")

    def _command(self, host: FarmHost) -> list[str]:
        sshd = " ".join(super()._command(host))
        apart = ["unshare", "--uts", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
        monotonic_s, uptime_s = self.ahead_s.get(host.name, (0, 0))
        if monotonic_s or uptime_s:  # how far its clocks are ahead of ours, from its next start on
            apart += ["--time", "--monotonic", str(monotonic_s), "--boottime", str(uptime_s)]
        program = f"hostname {host.name}; {sshd} & wait; wait"
        return ["ip", "netns", "exec", self._space(host.name), *apart, "bash", "-c", program]

    def _signal(self, name: str, number: int, of: str = "") -> None:
        """Send a signal to all processes of a host, or to those of a name and their children."""
        process = self.hosts[name].process
        assert process is not None, f"{name} does not run"
        for pid in descendants(process.pid):
            if name_of(pid).startswith(of) or name_of(parent_of(pid)).startswith(of):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _space(self, name: str) -> str:
        return f"sh{self.tag}-{name}"

    def _link(self, name: str) -> str:
        return f"sv{self.tag}{list(self.hosts).index(name)}"


@contextmanager
def namespaces_at(folder: Path, *names: str) -> Iterator[Namespaces]:
    """Open a farm of namespaces, and take it down again."""
    farm = Namespaces(folder, names)
    try:
        for name in names:
            farm.start(name)
        yield farm
    finally:
        farm.close()


@cache
def lacking() -> str:
    """Return what namespaces need and this machine does not have."""
    if LACKING:
        return LACKING
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        return f"needs {', '.join(missing)}" if missing else "needs root for network namespaces"
    tried = f"shtry{os.getpid():x}"
    with suppress(subprocess.CalledProcessError):
        run("ip", "netns", "add", tried)
        run("ip", "netns", "del", tried)
        return ""
    return "needs a kernel that lets us make network namespaces"


def run(*command: str, check: bool = True) -> str:
    """Run a command; return what it says."""
    done = subprocess.run(command, check=check, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.stdout
