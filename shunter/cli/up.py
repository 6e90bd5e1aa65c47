"""`shunter up` and `shunter down`: a daemon in the background, without a service manager.

    config (written if there is none) ─▶ daemon started ─▶ READY=1 ─▶ said where it is

The daemon is `shunter serve` in a session of its own. It or the kernel is asked what is true of it:
there is no file with its process id that could be wrong.
"""

import errno
import fcntl
import os
import re
import select
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Final

import typer

from shunter import __version__, clock
from shunter.addresses import (
    LATELY_S,
    TcpAddress,
    UnixAddress,
    find_address,
    home_of_up,
    listening_process,
    lock_of,
    parse_address,
    socket_of_up,
)
from shunter.cli import output
from shunter.cli.answers import Url, connect
from shunter.cli.options import Json, load
from shunter.counting import counted
from shunter.errors import (
    NotFoundError,
    RefusedError,
    UnavailableError,
    UnreachableError,
    UsageError,
)

if TYPE_CHECKING:
    from shunter.client import Client
    from shunter.config import LoadedConfig


JOBS_LOOK_S = 0.5  # how often jobs that are to end are looked at

LINES_SHOWN = 10
"""So many last lines of a daemon that did not come up are shown."""


def up(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG]",
            help="A TOML file. Left out: that of a cluster of this machine, which is written if "
            "there is none.",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=64,
            help="How many GPUs this machine has, for a config that is written. Left out: as many "
            "as NVML or nvidia-smi sees.",
        ),
    ] = None,
    systemd_unit: Annotated[
        bool,
        typer.Option(
            "--systemd-unit", help="Start nothing: print a unit for systemd that serves the config."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a daemon in the background, unless it runs; say where it is.

    Without CONFIG it is a cluster of this machine: its config, log, and what its jobs print are in
    ~/.shunter/HOST (root: /var/lib/shunter/HOST), or in SHUNTER_HOME.
    """
    path = _config(config)
    if systemd_unit:
        _print_unit(path, gpus)
        return
    if _is_missing(path):
        _write(path, gpus)
    loaded = load(path, None)
    _check(loaded, gpus)
    has_started, pid = _found_or_started(path, loaded)
    gpus_now = loaded.config.cluster.gpus if has_started else _gpus_of_daemon(loaded)
    if gpus not in (None, gpus_now):
        raise UsageError(
            f"--gpus {gpus}: the daemon that runs has {counted(gpus_now, 'GPU')}: it was started "
            f"before {path} said {gpus}; `shunter down`, then `shunter up`; jobs run on"
        )
    _print_up(path, loaded, pid, gpus_now, has_started=has_started, as_json=as_json)


def _print_unit(path: Path, gpus: int | None) -> None:
    """Print a unit for a config; of one that is not there, say what writes it."""
    is_root = os.geteuid() == 0
    if not _is_missing(path):
        _check(load(path, None), gpus)
    output.print_line(unit_text(serve_words(path), is_root=is_root).rstrip())
    where = ROOT_UNIT_FILE if is_root else UNIT_FILE
    output.note(f"for {where}; its first lines say how to enable it")
    if _is_missing(path):
        output.note(
            f"{path} is not there yet: `shunter up` writes it and starts a daemon, and `shunter "
            "down` ends that one before systemd starts its own"
        )


def _config(config: Path | None) -> Path:
    """Return the absolute path of a config; only ours may be missing.

    Raises:
        NotFoundError: one is named that is not there.
        UsageError: it is ours, and no daemon could use that place.
    """
    if config is not None:
        if _is_missing(config):
            raise NotFoundError(
                f"{config} is not there; `shunter init` writes one, and `shunter up` alone uses "
                f"{home_of_up()}"
            )
        return config.absolute()
    path = home_of_up() / "shunter.toml"
    other = "SHUNTER_HOME names another folder"
    if not str(path).isprintable():
        raise UsageError(f"{str(path)!r}: expected a path of printable characters; {other}")
    try:
        parse_address(f"unix:{socket_of_up()}")
    except UsageError as error:
        raise UsageError(f"{error}; {other}") from error
    if Path("shunter.toml").exists() and Path.cwd() != path.parent:
        output.note("the shunter.toml of this folder is not used: `shunter up shunter.toml` does")
    return path


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:  # of others, `load` says why it cannot be read
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False


def _write(path: Path, gpus: int | None) -> None:
    from shunter.backends.node import is_networked, make_folder
    from shunter.ops import local_config

    text, notes = local_config(gpus, socket_of_up())
    mode = 0o755 if os.geteuid() == 0 else 0o700  # root's jobs are those of all users
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        make_folder(str(path.parent), mode)
        part.touch(0o644)  # whatever the umask, nobody else writes to it
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise UsageError(
            f"{path} cannot be written: {error.strerror}; SHUNTER_HOME names another folder"
        ) from error
    for note in notes:
        output.note(note)
    if is_networked(str(path.parent.resolve())):
        output.note(
            f"warning: {path.parent} lies on a network file system, where a log is slow and not "
            "safe: set SHUNTER_HOME, here and where you submit, to a folder of a local disk"
        )


def _check(loaded: "LoadedConfig", gpus: int | None) -> None:
    """Raise a UsageError if a config is of no live cluster, or has other GPUs."""
    found = loaded.config.cluster.gpus
    if not loaded.config.backend.is_live:
        raise UsageError(
            f"{loaded.source}: backend.kind = 'simulated' runs no jobs: expected local, ssh or "
            "slurm; `shunter simulate` runs this config"
        )
    if gpus is not None and gpus != found:
        raise UsageError(
            f"--gpus {gpus}: {loaded.source} is there already, with {counted(found, 'GPU')}: "
            f"leave --gpus out, or write gpus = {gpus} in its [[cluster.nodes]], then `shunter "
            "down` and `shunter up`"
        )


def _found_or_started(path: Path, loaded: "LoadedConfig") -> tuple[bool, int]:
    """Return whether a daemon was started, and the id of the one that runs now.

    Raises:
        RefusedError: the socket is another user's.
        UsageError: none of its addresses is a socket, or its folder is not for this user.
        typer.Exit: it ended before it took commands.
    """
    addresses = loaded.config.server.addresses
    if not any(isinstance(each, UnixAddress) for each in addresses):
        raise UsageError(
            f'{loaded.source}: server.listen: expected a socket too, such as ["unix:", "tcp:…"]: '
            "`up` and `down` find a daemon by it; `shunter serve` needs none"
        )
    try:
        with one_at_a_time(path, lambda: output.note(f"another `up` is at work in {path.parent}")):
            try:
                if found := settled_daemon_at(addresses, _note_busy):
                    return False, found[0]
            except PermissionError as error:
                raise RefusedError(
                    f"server.listen of {path}: a daemon of another user has the socket; take "
                    "another"
                ) from error
            made = start_daemon(path, lambda pid: output.note(_slow(pid, path)))
    except OSError as error:
        raise UsageError(
            f"no daemon was started: {error.filename or path.parent}: {error.strerror}"
        ) from error
    if not isinstance(made, Ended):
        return True, made
    for line in made.messages.splitlines()[-LINES_SHOWN:]:
        output.note(line)
    if not made.messages:
        free_kb = shutil.disk_usage(path.parent).free // 1000
        output.note(f"it said nothing; the disk of {path.parent} has {free_kb:,} kB free")
    told = f"it ended with code {made.exit_code}" if made.exit_code >= 0 else "a signal ended it"
    where = f"all that it said is in {messages_of(path)}"
    if not made.messages:
        where = f"it said nothing, as on a full disk; look at that of {path.parent}"
    output.note(f"the daemon did not come up: {told}; {where}")
    raise typer.Exit(made.exit_code if made.exit_code > 0 else 1)


def _note_busy() -> None:
    output.note("a daemon is starting or ending there: waiting until it has; Ctrl-C leaves it")


def _slow(pid: int, path: Path) -> str:
    return (
        f"the daemon (process {pid}) is still starting, which takes long after a long life of its "
        f"log; {messages_of(path)} has what it says; Ctrl-C leaves it to go on"
    )


def _socket_of(loaded: "LoadedConfig") -> str:
    addresses = loaded.config.server.addresses
    return next(str(each) for each in addresses if isinstance(each, UnixAddress))


def _gpus_of_daemon(loaded: "LoadedConfig") -> int:
    """Return how many GPUs the daemon that runs has, whatever its file says now."""
    with connect(_socket_of(loaded)) as client:
        nodes = client.nodes()["nodes"]
    return sum(len(node["gpus"]) for node in nodes if node.get("device") != "cpu")


def _print_up(
    path: Path, loaded: "LoadedConfig", pid: int, gpus: int, *, has_started: bool, as_json: bool
) -> None:
    addresses, socket = list(map(str, loaded.config.server.addresses)), _socket_of(loaded)
    config, log, policy = str(path), loaded.config.log.url, loaded.config.policy.name
    version = __version__
    if not has_started:
        with connect(socket) as client:
            found = client.daemon()
        config, log = found.get("config", config), found.get("log", log)
        policy, version = found["policy"], found["version"]
    messages = messages_of(path)
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "has_started": has_started,
                "pid": pid,
                "addresses": addresses,
                "config": config,
                "log": log,
                "messages": str(messages) if messages.exists() else None,
            }
        )
        return
    rows = [("listens", " ".join(addresses)), ("config", config), ("log", log)]
    if messages.exists():
        rows.append(("messages", str(messages)))
    rows += [
        ("submit", "shunter submit -- COMMAND prints its id; shunter logs -f ID"),
        ("end it", "shunter down; jobs run on, --end-jobs ends them too"),
    ]
    process = f"process {pid}" if pid else "in another container"
    state = "is up" if has_started else "runs already"
    output.print_line(f"shunter {state}: {process}, {counted(gpus, 'GPU')}, policy {policy}")
    for name, value in rows:
        output.print_line(f"  {name:<9} {value}")
    if config != str(path):
        output.note(f"warning: that daemon serves {config}, not {path}")
    elif gpus != loaded.config.cluster.gpus:
        output.note(
            f"warning: {path} says {counted(loaded.config.cluster.gpus, 'GPU')} now: `shunter "
            "down`, then `up`, takes it; jobs run on"
        )
    if version != __version__:
        output.note(
            f"warning: that daemon is of Shunter {version}, and this is {__version__}: `shunter "
            "down`, then `up`, takes this one; jobs run on"
        )
    if has_started and loaded.config.backend.kind == "local" and loaded.config.cluster.gpus:
        for other, folder in other_daemons(pid):
            output.note(
                f"warning: another daemon runs on this machine (process {other}, its socket in "
                f"{folder}): if it has the same GPUs, jobs of both run on them at once"
            )
    _say_who_is_asked(addresses, socket)


def _say_who_is_asked(addresses: list[str], socket: str) -> None:
    """Say it where commands do not find this daemon by themselves."""
    try:
        asked = str(find_address())
    except (UnreachableError, UsageError):
        asked = "nobody"
    if asked not in addresses:
        output.note(
            f"commands ask {asked} here; for this daemon: export SHUNTER_URL={shlex.quote(socket)}"
        )


def down(
    end_jobs: Annotated[
        bool, typer.Option("--end-jobs", help="Cancel all jobs first, and wait until they ended.")
    ] = False,
    url: Url = None,
) -> None:
    """End your daemon on this machine; jobs run on, and the next one finds them."""
    address = _address(url)
    try:
        found = None if address is None else settled_daemon_at([address], _note_busy)
    except PermissionError as error:
        raise RefusedError(f"{address} may not be opened by this user: ask its owner") from error
    if address is None or found is None:
        if end_jobs:
            raise UnreachableError(
                f"no daemon is running on {address or 'this machine'}, so none can end its jobs: "
                "`shunter up`, then `shunter down --end-jobs`"
            )
        output.print_line(f"no daemon is running on {address or 'this machine'}")
        return
    pid = found[0]
    if not pid:
        raise RefusedError(f"the daemon on {address} is in another container: end it there")
    try:
        with connect(str(address)) as client:
            if not client.daemon()["is_admin"]:
                raise RefusedError(f"only its own user, root and admins may end the daemon {pid}")
            if end_jobs:
                _end_jobs(client)
            left = [job["state"] for job in client.queue()["jobs"]]
    except UnavailableError:
        if end_jobs or settled_daemon_at([address], _note_busy) is not None:
            raise
        output.print_line("no daemon is running on this machine: it was ended meanwhile")
        return
    waiting = left.count("waiting") + left.count("held") + left.count("suspended")
    try:
        end_daemon(pid, lambda: output.note(f"process {pid} is still ending"))
    except PermissionError as error:
        raise RefusedError(f"process {pid} is another user's: it must end its daemon") from error
    forget_socket(found[1])
    output.print_line(_ended(f"{address} (process {pid})", len(left) - waiting, waiting))


def _address(url: str | None) -> UnixAddress | None:
    """Return the socket of the daemon that is to end; None: there never was one.

    An admin who types `down` twice does not end the daemon of the whole machine, and all its jobs.

    Raises:
        UsageError: it is no socket of this machine.
    """
    try:
        address = find_address(url, own_only=True)
    except UnreachableError:
        return None
    if isinstance(address, TcpAddress):
        raise UsageError(f"down: {address} is no socket of this machine: end that daemon there")
    return address


def _end_jobs(client: "Client") -> None:
    """Cancel all jobs that there are, and wait until these have ended."""
    from shunter.client import problem_error

    asked = [job["id"] for job in client.queue()["jobs"]]
    if asked:
        output.note(f"ending {counted(len(asked), 'job')}; Ctrl-C leaves the daemon up")
        for one in client.cancel_jobs(asked)["refused"]:
            if not client.job(one["job"])["is_over"]:
                raise problem_error(one["problem"])
    while {job["id"] for job in client.queue()["jobs"]}.intersection(asked):
        time.sleep(JOBS_LOOK_S)


def _ended(which: str, running: int, waiting: int) -> str:
    """Return which daemon has ended, and what becomes of its jobs."""
    said = [f"the daemon on {which} has ended"]
    if running:
        said.append(f"{counted(running, 'job')} {'runs' if running == 1 else 'run'} on")
    if waiting:
        said.append(f"{counted(waiting, 'job')} {'waits' if waiting == 1 else 'wait'} in its log")
    if running or waiting:
        said.append("the next daemon of this log goes on from there")
    return "; ".join(said)


# Daemons in the background.

LOOK_S = 0.1
"""How often a daemon that starts or ends by itself is looked at."""

SLOW_S = 10.0
"""After so long it is said once that a daemon is still at it."""

MESSAGES_MOST = 1_000_000
"""A file of messages that is longer is moved out of the way at the next start."""

NO_FILE = "expected a file for what the daemon says: move away what is there"

_CREDENTIALS = struct.Struct("3i")
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_ACCEPTS = 0x10000
_BOUND = re.compile(r"(/.*)/\.[^/]+\.([0-9]{1,9})")
_READY = b"READY=1"


@dataclass(frozen=True)
class Ended:
    """A daemon that ended before it took commands."""

    exit_code: int
    messages: str


def messages_of(config: Path) -> Path:
    """Return the file beside a config into which a daemon in the background writes."""
    return config.with_suffix(".messages")


def serve_words(config: Path) -> list[str]:
    """Return the command that serves a config with this Python."""
    return [sys.executable, "-P", "-m", "shunter", "serve", str(config)]


@contextmanager
def one_at_a_time(config: Path, busy: Callable[[], None]) -> Iterator[None]:
    """Wait until no other command starts a daemon of this folder; keep others off.

    Args:
        config: an absolute path.
        busy: called if there is one.
    """
    folder = os.open(config.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy()
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def start_daemon(config: Path, slow: Callable[[int], None]) -> int | Ended:
    """Start a daemon in a session of its own; return its id once it takes commands.

    Args:
        config: an absolute path.
        slow: called once with the process id, if that takes long.
    Raises:
        OSError: its messages cannot be written, or no process be started.
    """
    path = messages_of(config)
    if path.exists() and path.stat().st_size > MESSAGES_MOST:
        path.replace(path.with_suffix(".messages.old"))
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told,
        os.fdopen(_opened(path), "ab") as messages,
    ):
        told.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        told.bind("")  # the kernel gives it an abstract name, which all users may send to
        begin = messages.seek(0, os.SEEK_END)
        name = told.getsockname().decode("ascii").replace("\0", "@", 1)
        daemon = subprocess.Popen(
            serve_words(config),
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=messages,
            cwd=config.parent,
            env={**os.environ, "NOTIFY_SOCKET": name},
            umask=_umask() | stat.S_IWOTH,
            start_new_session=True,
        )
        ended = os.pidfd_open(daemon.pid)
        try:
            if _is_ready(told, ended, daemon.pid, lambda: slow(daemon.pid)):
                return daemon.pid
        finally:
            os.close(ended)
    with path.open("rb") as file:
        file.seek(begin)
        said = file.read().decode("utf-8", "replace").strip()
    return Ended(daemon.wait(), said)


def _opened(path: Path) -> int:
    """Open the file into which a daemon writes, without waiting where it is a pipe.

    Raises:
        OSError: it cannot be written, or is a pipe or a folder.
    """
    try:
        descriptor = os.open(path, _APPENDING | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.EISDIR):
            raise
        raise OSError(error.errno, NO_FILE, str(path)) from error
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISCHR(kind):  # as /dev/null is
        os.close(descriptor)
        raise OSError(errno.ENXIO, NO_FILE, str(path))
    os.set_blocking(descriptor, True)
    return descriptor


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


def _is_ready(told: socket.socket, ended: int, pid: int, slow: Callable[[], None]) -> bool:
    """Wait until a daemon says that it takes commands, or has ended; say which."""
    wait_s: float | None = SLOW_S
    while True:
        happened, _, _ = select.select([told.fileno(), ended], [], [], wait_s)
        if told.fileno() in happened:
            said, added, _, _ = told.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
            by = [_CREDENTIALS.unpack(data)[0] for _, _, data in added]
            if by == [pid] and _READY in said.splitlines():
                return True
        elif happened:
            return False
        else:
            slow()
            wait_s = None


def settled_daemon_at(
    addresses: Sequence[UnixAddress | TcpAddress], busy: Callable[[], None]
) -> tuple[int, UnixAddress] | None:
    """Return what `daemon_at` does, but wait for a daemon that is starting or ending.

    Args:
        addresses: where it may listen.
        busy: called once if there is such a daemon.
    Raises:
        PermissionError: a socket is not for this user.
    """
    sockets = [each for each in addresses if isinstance(each, UnixAddress)]
    is_first = True
    while (found := daemon_at(sockets)) is None and any(map(_is_taken, sockets)):
        if is_first:
            busy()
        is_first = False
        time.sleep(LOOK_S)
    return found


def _is_taken(address: UnixAddress) -> bool:
    """Say whether a daemon holds the lock of a socket, whether or not it listens."""
    try:
        lock = os.open(lock_of(address.path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def daemon_at(addresses: Sequence[UnixAddress | TcpAddress]) -> tuple[int, UnixAddress] | None:
    """Return the process that listens on one of the sockets, and on which.

    The process is 0 where it is in another container.

    Raises:
        PermissionError: a socket is not for this user.
    """
    for address in addresses:
        if isinstance(address, UnixAddress) and (pid := listening_process(address)) is not None:
            return pid, address
    return None


def other_daemons(pid: int) -> list[tuple[int, str]]:
    """Return the other daemons that listen here: process, and folder of the socket.

    Any user may read of all sockets by what name they were bound (`serving.sockets`): with the
    process, since they are moved into place. Those of other containers are not among them.
    """
    found = []
    for line in Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]:
        parts = line.split(maxsplit=7)
        bound = _BOUND.fullmatch(parts[-1]) if len(parts) == 8 else None
        if bound is None or not int(parts[3], 16) & _ACCEPTS or int(bound[2]) == pid:
            continue
        with suppress(OSError):
            words = Path(f"/proc/{bound[2]}/cmdline").read_bytes().split(b"\0")
            if b"serve" in words:
                found.append((int(bound[2]), bound[1]))
    return sorted(found)


def end_daemon(pid: int, slow: Callable[[], None]) -> None:
    """Ask a daemon to end, and wait until it has.

    Raises:
        PermissionError: it is another user's.
    """
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(ended, signal.SIGTERM)
        happened, _, _ = select.select([ended], [], [], SLOW_S)
        if not happened:
            slow()
            select.select([ended], [], [])
    except ProcessLookupError:
        return
    finally:
        os.close(ended)


def forget_socket(address: UnixAddress) -> None:
    """Let clients no longer wait for a daemon, which was ended for good."""
    with suppress(OSError):  # another user's, or gone: they wait for two minutes
        long_ago_s = clock.wall_s() - 2 * LATELY_S
        os.utime(lock_of(address.path), (long_ago_s, long_ago_s))


# Units for systemd.

UNIT_FILE: Final = "~/.config/systemd/user/shunter.service"
ROOT_UNIT_FILE: Final = "/etc/systemd/system/shunter.service"

_OF_USER = f"""\
# A scheduler of your own, kept up by systemd:
#
#   mkdir -p ~/.config/systemd/user
#   shunter up --systemd-unit > {UNIT_FILE}
#   systemctl --user enable --now shunter
#   loginctl enable-linger            # so that it lives while you are logged out
"""
_OF_ROOT = f"""\
# A scheduler of this machine, kept up by systemd:
#
#   shunter up --systemd-unit > {ROOT_UNIT_FILE}
#   systemctl enable --now shunter
"""

_TEXT = Template("""\
$head[Unit]
Description=Shunter, a scheduler for deep-learning jobs

[Service]
ExecStart=$command
# It says when it takes commands; why a start failed is in the journal.
Type=notify
Restart=on-failure
RestartSec=2
# 2: the config is wrong, 5: another daemon is at work. Trying again would change nothing.
RestartPreventExitStatus=2 5
# A stop ends the daemon alone: its jobs run on, and the next start finds them again.
KillMode=process
# Lets the daemon hold jobs to the memory they asked for$delegates.
Delegate=yes
LimitNOFILE=65536
TasksMax=infinity

[Install]
WantedBy=$target
""")


def unit_text(command: Sequence[str], *, is_root: bool) -> str:
    """Return the text of a unit that runs a command, as root's or as a user's own."""
    return _TEXT.substitute(
        command=" ".join(map(_quoted, command)),
        head=_OF_ROOT if is_root else _OF_USER,
        delegates="" if is_root else ", where systemd delegates that to users",
        target="multi-user.target" if is_root else "default.target",
    )


def _quoted(word: str) -> str:
    """Return a word as `ExecStart=` takes it (systemd.service(5), command lines)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or not word or set(word) & set(" \t';") else word
