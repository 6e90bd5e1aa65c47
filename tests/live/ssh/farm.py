"""Real sshd hosts on this machine, each with its own key, port, home and folders.

On loopback every host is an sshd at an address of its own, run by whoever runs the tests. Those of
namespaces.py can be cut off and powered off as well, which takes root.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_S = 60.0
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
LACKING = "" if SSHD and shutil.which("ssh-keygen") else "needs openssh-server"
CONFIGURATION = """
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {keys}
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
MaxSessions 10
MaxStartups 10:30:100
Subsystem sftp {sftp}
SetEnv HOME={home}
LogLevel VERBOSE
"""


@dataclass(slots=True)
class FarmHost:
    """One host: where it listens, and what lies there."""

    name: str
    address: str
    port: int
    folder: Path
    sftp: str = "internal-sftp"
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def home(self) -> Path:
        """What its users see as their home, so that nobody's shell files colour a test."""
        return self.folder / "home"

    @property
    def root(self) -> Path:
        """Where the scheduler keeps its things there."""
        return self.folder / "root"

    def noisy(self, lines: str) -> None:
        """Run shell lines at each login that runs a command."""
        (self.home / ".bashrc").write_text(lines)

    def key(self) -> str:
        """Return its public key."""
        kind, key, *_ = (self.folder / "host_key.pub").read_text().split()
        return f"{kind} {key}"

    def log(self) -> str:
        """Return what its sshd has noted."""
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""


class Farm:
    """Hosts below a folder, and the one key that opens them."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder = folder
        self.user = getpass.getuser()
        self.key = folder / "client_key"
        make_key(self.key)
        self.hosts = {name: self._host(number, name) for number, name in enumerate(names)}
        for host in self.hosts.values():
            (host.home).mkdir(parents=True)
            host.root.mkdir()
            make_key(host.folder / "host_key")
        self.known_hosts = folder / "known_hosts"
        self.trust(*self.hosts)

    def __getitem__(self, name: str) -> FarmHost:
        return self.hosts[name]

    def trust(self, *names: str) -> None:
        """Write the file of known hosts with the keys of some of them."""
        hosts = [self.hosts[name] for name in names]
        lines = [f"[{host.address}]:{host.port} {host.key()}\n" for host in hosts]
        self.known_hosts.write_text("".join(lines))

    def start(self, name: str) -> None:
        """Start a host's sshd, and wait until it answers."""
        host = self.hosts[name]
        keys = self.folder / "authorized_keys"
        keys.write_text(self.key.with_suffix(".pub").read_text())
        self._configure(host, keys)
        null = subprocess.DEVNULL
        host.process = subprocess.Popen(
            self._command(host), stdin=null, stdout=null, stderr=null, start_new_session=True
        )
        until_s = time.monotonic() + PATIENCE_S
        while True:
            with suppress(OSError), socket.create_connection((host.address, host.port), 1.0):
                return
            assert time.monotonic() < until_s, f"sshd of {name} does not answer: {host.log()}"
            time.sleep(0.01)

    def stop(self, name: str) -> None:
        """End a host's sshd with all its connections; what runs there runs on."""
        process = self.hosts[name].process
        if process is None:
            return
        process.send_signal(signal.SIGSTOP)  # nobody gets in any more
        for pid in sessions(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()
        self.hosts[name].process = None

    def disconnect(self, name: str) -> None:
        """End all connections to a host, and leave it listening; what runs there runs on."""
        process = self.hosts[name].process
        assert process is not None, f"{name} does not run"
        for pid in sessions(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End all hosts, and wait for what their sshds started: it may still write there."""
        daemons = [host.process.pid for host in self.hosts.values() if host.process is not None]
        started = [below for pid in daemons for below in descendants(pid)]
        for name in self.hosts:
            self.stop(name)
        until_s = time.monotonic() + PATIENCE_S
        while left := [pid for pid in started if name_of(pid)]:
            assert time.monotonic() < until_s, f"{left} outlive the sshds that started them"
            time.sleep(0.005)

    def _host(self, number: int, name: str) -> FarmHost:
        address = f"127.0.0.{2 + number}"
        with socket.socket() as probe:
            probe.bind((address, 0))
            port = probe.getsockname()[1]
        return FarmHost(name, address, port, self.folder / name)

    def _configure(self, host: FarmHost, keys: Path) -> None:
        text = CONFIGURATION.format(
            port=host.port,
            address=host.address,
            folder=host.folder,
            home=host.home,
            keys=keys,
            sftp=host.sftp,
        )
        (host.folder / "sshd_config").write_text(text)

    def _command(self, host: FarmHost) -> list[str]:
        assert SSHD is not None, LACKING
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd gives up its rights
        log, configuration = host.folder / "log", host.folder / "sshd_config"
        return [SSHD, "-D", "-E", str(log), "-f", str(configuration)]


@contextmanager
def farm_at(folder: Path, *names: str) -> Iterator[Farm]:
    """Open a farm on loopback, and take it down again."""
    farm = Farm(folder, names)
    try:
        for name in names:
            farm.start(name)
        yield farm
    finally:
        farm.close()


def make_key(path: Path) -> None:
    """Make a key pair."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S)


def descendants(pid: int) -> list[int]:
    """Return all processes below one."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    below = [int(child) for child in children]
    return below + [deeper for child in below for deeper in descendants(child)]


def sessions(pid: int) -> list[int]:
    """Return the processes of an sshd that serve connections, and none that they started."""
    return [below for below in descendants(pid) if name_of(below).startswith("sshd")]


def name_of(pid: int) -> str:
    """Return the name of a process; of one that is gone, nothing."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """Return the parent of a process; of one that is gone, 0."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
