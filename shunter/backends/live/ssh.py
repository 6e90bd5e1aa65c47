"""Servers reached over SSH as a cluster: one connection, and one agent, a host.

In this order: how a connection is opened, how the agent gets onto a host on which nothing is
installed, the transport and the backend, and what hosts have, asked once for `shunter init`.
"""

import asyncio
import json
import os
import secrets
import shlex
import stat
import traceback
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from shunter import clock
from shunter.backends.live.backend import SupervisedBackend
from shunter.backends.live.gpus import why_unseen
from shunter.backends.live.settings import SshAccess, SshHost, SshSettings
from shunter.backends.live.transport import (
    AgentProcess,
    Link,
    Server,
    TooMuchSaidError,
    UnreachedError,
    digest,
    hinted,
    installer,
    is_too_old,
    read_all,
    run_verb,
    zip_application,
)
from shunter.backends.node import an_object
from shunter.errors import BackendError

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess, SSHReader


# One connection to a host, without user configuration, agent or default keys.

PRIVATE = 0o077
KEEPALIVES = 2  # asyncssh gives up one interval after so many went unanswered: three in all


@asynccontextmanager
async def connected(
    host: SshHost, settings: SshSettings, limit: anyio.Semaphore
) -> AsyncIterator["SSHClientConnection"]:
    """Open a connection, and abort it at the end, which waits for nobody.

    Args:
        host: whom to reach.
        settings: how.
        limit: how many may be opening at once; sshd drops some of many (MaxStartups).
    Raises:
        UnreachedError: it cannot be opened within `connect_s`.
    """
    import asyncssh

    _check_files(host, settings.access)
    options = _options(host, settings)
    async with limit:
        try:
            with anyio.fail_after(settings.connect_s):
                async with _client_keys(settings.access) as keys:
                    ssh = await asyncssh.connect(
                        host.address, host.port, client_keys=keys, **options
                    )
        except (asyncssh.Error, OSError, ValueError) as error:
            raise UnreachedError(worded(host, settings.access, error)) from error
    try:
        with told_as_lost(host.name):
            yield ssh
    finally:
        ssh.abort()


def quoted(words: Iterable[str]) -> str:
    """Return words in one line, which the login shells of this world split alike.

    bash, dash, zsh, fish and tcsh do; the last looks for ! between quotes too. A shell is given a
    program and its words, nothing else: no assignments, redirections or lines, which differ.
    """
    return " ".join(shlex.quote(word).replace("!", "'\\!'") for word in words)


async def ran_on(
    ssh: "SSHClientConnection", command: str, content: bytes | None, most: int
) -> tuple[int | None, bytes, bytes]:
    """Run a command to its end; return its status, output and complaints.

    One that ends before it has read its input is no lost connection: it says itself why.

    Raises:
        TooMuchSaidError: output or complaints have more than `most` bytes.
    """
    said: dict[str, bytes] = {}

    async def read(name: str, stream: "SSHReader[bytes]") -> None:
        said[name] = await read_all(stream.read, most)

    process = await ssh.create_process(command, encoding=None)
    try:
        if content is not None:
            with suppress(BrokenPipeError):
                process.stdin.write(content)
                process.stdin.write_eof()
        await asyncio.gather(read("out", process.stdout), read("err", process.stderr))
        await process.wait_closed()
    finally:
        process.close()
    return process.exit_status, said["out"], said["err"]


@contextmanager
def told_as_lost(name: str) -> Iterator[None]:
    """Turn an assertion of asyncssh's into the loss of a connection to a host.

    It asserts that a channel has a connection right after it waited for the channel to be opened;
    a connection that was lost in between breaks it.

    Raises:
        UnreachedError: such an assertion failed.
    """
    try:
        yield
    except AssertionError as error:
        places = traceback.extract_tb(error.__traceback__)
        if not Path(places[-1].filename).is_relative_to(_library()):
            raise
        raise UnreachedError(f"the connection to host {name} was lost") from error


def _library() -> Path:
    import asyncssh

    return Path(asyncssh.__file__).parent


def _check_files(host: SshHost, access: SshAccess) -> None:
    """Refuse files that others can read or change, as ssh does."""
    for path, forbidden in (
        *((key, PRIVATE) for key in access.keys),
        (access.known_hosts, 0o002),
        (access.config, 0o002),
    ):
        try:
            found = Path(path).expanduser().stat()
        except OSError:
            continue  # whoever reads it says so
        mode = stat.S_IMODE(found.st_mode)
        if not path or not stat.S_ISREG(found.st_mode):
            continue
        if found.st_uid not in (0, os.geteuid()):
            what, mend = f"belongs to user {found.st_uid}", f"chown it, if {path} is yours"
        elif mode & forbidden:
            may = "read" if forbidden == PRIVATE else "change"
            what = f"is one that others may {may} (mode {mode:04o})"
            mend = f"chmod {'600' if forbidden == PRIVATE else 'o-w'} {path}"
        else:
            continue
        raise UnreachedError(f"host {host.name} is not asked, since {path} {what}: {mend}")


def _options(host: SshHost, settings: SshSettings) -> dict[str, object]:
    access = settings.access
    known = Path(access.known_hosts).expanduser()
    options: dict[str, object] = {
        "known_hosts": str(known) if known.exists() else [],  # an empty list refuses everybody
        "config": [str(Path(access.config).expanduser())] if access.config else None,
        "agent_path": access.agent or None,
        "agent_forwarding": False,
        "preferred_auth": ("publickey",),
        "password_auth": False,
        "kbdint_auth": False,
        "keepalive_interval": settings.keepalive_s,
        "keepalive_count_max": KEEPALIVES,
        "login_timeout": settings.connect_s,
        "compression_algs": None,
    }
    if host.user:
        options["username"] = host.user
    return options


@asynccontextmanager
async def _client_keys(access: SshAccess) -> AsyncIterator[Any]:
    """Lend what we show to be let in, until we are.

    Where asyncssh is given no key, even an empty list, it takes the default ones of our home; only
    None means none. So the keys of an agent that stands alone are named too. A file of options
    names its own, or means the default ones, as it does for `ssh -F`.
    """
    import asyncssh

    if access.keys:
        yield list(_expanded(access.keys))
    elif access.config:
        yield ()
    elif access.agent:
        try:
            agent = await asyncssh.connect_agent(access.agent)
            keys = await agent.get_keys()
        except (OSError, ValueError) as error:
            raise UnreachedError(
                f"the SSH agent at {access.agent} does not answer ({error}): start it, or name keys"
            ) from error
        try:
            yield list(keys) or None
        finally:
            agent.close()
    else:
        yield None


def _expanded(paths: Iterable[str]) -> Iterator[str]:
    return (str(Path(path).expanduser()) for path in paths)


def worded(host: SshHost, access: SshAccess, error: BaseException) -> str:
    """Return what went wrong with a host, and what to do about it."""
    import asyncssh

    where = f"host {host.name} ({host.user}{'@' if host.user else ''}{host.address}:{host.port})"
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return (
            f"{where} shows a key that is not in {access.known_hosts}: if it is right, add it "
            f"(ssh-keyscan -p {host.port} {host.address}) after comparing it on the host; "
            "if it has changed and nobody knows why, do not"
        )
    if isinstance(error, asyncssh.PermissionDenied):
        keys = ", ".join(access.keys) or access.agent or "no key at all"
        return (
            f"{where} does not accept {keys}: put its public half into ~/.ssh/authorized_keys; if "
            "it is there, "
            "its sshd notes why (journalctl -u ssh), such as a login shell that does not "
            "exist, a locked account, or AllowUsers"
        )
    if isinstance(error, asyncssh.KeyImportError | asyncssh.KeyEncryptionError):
        return f"{where} cannot be asked: a key of {list(access.keys)} cannot be read: {error}"
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return f"{where} does not answer in time: is it up, and is its network?"
    if isinstance(error, ConnectionRefusedError):
        return f"{where} refuses connections: is sshd running on port {host.port}?"
    return f"{where} cannot be reached: {str(error) or type(error).__name__}"


# The one file that a host needs, once for each version. Its name holds its digest, but a file of
# that name counts only if it is ours and byte for byte the same.

NOT_FOUND = 127
"""What all shells exit with where there is no such program."""

SAID_BYTES = 200
SAID_BYTES_MOST = 1 << 20

READS_OURS = (
    "let what its shell runs at login read where there is a terminal only (~/.bashrc, ~/.cshrc)"
)

BEGIN = "import sys;exec(sys.stdin.buffer.read(int(sys.argv[1])))"


async def installed(ssh: "SSHClientConnection", host: SshHost, limit_s: float) -> str:
    """Make sure that the file is on a host; return its path there.

    Raises:
        UnreachedError: it cannot be put there: others may write to the folder, the host is full,
            or has no Python.
    """
    import asyncssh

    program, content = _programs()
    nonce = secrets.token_hex(8)
    words = [str(len(program)), "install", host.base, digest(content), nonce]
    command = quoted([host.python, "-I", "-S", "-c", BEGIN, *words])
    try:
        with anyio.fail_after(limit_s):
            status, out, err = await ran_on(ssh, command, program + content, SAID_BYTES_MOST)
    except TimeoutError as error:
        raise UnreachedError(
            f"host {host.name} lets us in, but {host.python} did not answer within {limit_s:g} s: "
            f"what its shell runs at login may be slow or wait for input; {_in_the_way(host)}"
        ) from error
    except TooMuchSaidError as error:
        raise UnreachedError(
            f"host {host.name} does not take the agent, since more than "
            f"{SAID_BYTES_MOST >> 20} MiB were printed before it: {_in_the_way(host)}"
        ) from error
    except (asyncssh.Error, OSError) as error:
        raise UnreachedError(f"host {host.name} does not take the agent: {error!r}") from error
    answer = out.rpartition(f"\n{nonce} ".encode())[2] if nonce.encode() in out else b""
    if not answer:
        raise UnreachedError(_why_no_answer(host, status, out, err))
    found = json.loads(answer)
    if "unsafe" in found:
        raise UnreachedError(
            f"host {host.name} is not used, since others could have their programs run there as "
            f"who logs in ({found['unsafe']}): set [backend.ssh] base to a folder that only root "
            "or who logs in may write to, as all above it, such as /var/lib/shunter"
        )
    if "cut" in found:
        raise UnreachedError(
            f"host {host.name} has {found['cut']} of the agent's {len(content)} bytes, or others: "
            f"{READS_OURS}"
        )
    if "error" in found:
        raise UnreachedError(
            f"host {host.name} cannot write to {found['error']}: make room there, or set base in "
            f"[backend.ssh.hosts.{host.name}] to a folder that who logs in may make and write to, "
            "such as /var/tmp/shunter"
        )
    return str(found["path"])


def _why_no_answer(host: SshHost, status: int | None, out: bytes, err: bytes) -> str:
    """Return why a host's Python did not run, by what came in its place."""
    complaint = err.decode("utf-8", "replace").strip()
    printed = out[-SAID_BYTES:].decode("utf-8", "replace").strip()
    said = complaint or "".join(each for each in printed if each.isprintable())
    where = f"python = PATH in [backend.ssh.hosts.{host.name}]"
    words = f"host {host.name} does not take the agent: {host.python} said {hinted(said)}"
    if "null bytes" in said:
        return (
            f"host {host.name} does not take the agent, since what its shell runs at login reads "
            f"the input that is ours: {READS_OURS}"
        )
    if is_too_old(said):
        return f"{words}; expected Python 3.8 or later, {where}"
    if status == NOT_FOUND or "not found" in complaint.lower():
        return f"{words}; expected Python 3.8 or later: install it, or name where it is, {where}"
    return (
        f"host {host.name} lets us in, but runs something else than {host.python}, which ended "
        f"with status {status} and said {json.dumps(said[-SAID_BYTES:])}: {_in_the_way(host)}"
    )


def _in_the_way(host: SshHost) -> str:
    """Return what may keep a host from running what it is asked to."""
    return (
        f"see whether {host.user or 'who logs in'} has nologin for a shell (chsh -s /bin/sh), "
        "whether ForceCommand in its sshd_config or command= of the key runs something else, and "
        "whether what its shell runs at login ends it (~/.bashrc, ~/.cshrc)"
    )


@cache
def _programs() -> tuple[bytes, bytes]:
    """Return installer and file, as this process keeps to them."""
    return installer(), zip_application()


COMPLAINT_BYTES, COMPLAINT_S = 1 << 16, 1.0
WINDOW_BYTES = 2 << 20
"""A host sends so much at most before it is told that some of it was read."""


class SshTransport:
    """Reaches the agent of a host.

    Args:
        host: which.
        settings: of the cluster.
        limit: how many connections may be opening at once; sshd drops some of many (MaxStartups).
    """

    def __init__(self, host: SshHost, settings: SshSettings, limit: anyio.Semaphore) -> None:
        self.name = host.name
        self.servers: Sequence[Server] = (host,)
        self.address = host.gang_address or host.address
        self.environment: Mapping[str, str] = host.environment
        self.cgroup: str | None = host.cgroup
        self.folder = host.base
        self.is_on_demand = False
        self.reason = ""
        self.is_here = False
        self._host = host
        self._settings = settings
        self._limit = limit

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        """Connect, and make sure that the agent is there.

        Raises:
            UnreachedError: why that cannot be done.
        """
        async with connected(self._host, self._settings, self._limit) as ssh:
            yield SshLink(
                ssh, self._host, await installed(ssh, self._host, self._settings.connect_s)
            )

    async def answers(self) -> bool:
        """Return whether anybody listens where the host's sshd should."""
        if self._settings.access.config:  # it may name a host that no plain connection reaches
            return True
        try:
            stream = await anyio.connect_tcp(self._host.address, self._host.port)
        except OSError:
            return False
        await stream.aclose()
        return True


class SshLink:
    """A connection to a host, and where its agent lies."""

    def __init__(self, ssh: "SSHClientConnection", host: SshHost, path: str) -> None:
        self._ssh = ssh
        self._host = host
        self._path = path

    async def begin(self, verb: str, *words: str) -> AgentProcess:
        """Begin a verb of the agent in a channel of its own.

        Raises:
            OSError: it cannot be begun.
            UnreachedError: the connection was lost.
        """
        every = [self._host.python, "-I", "-S", self._path, verb, *words]
        with told_as_lost(self._host.name), _told_as_os_error():
            process = await self._ssh.create_process(
                "exec " + quoted(every), encoding=None, window=WINDOW_BYTES
            )
        return _RemoteProcess(process)

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        """Begin a session in a channel of its own.

        Raises:
            OSError: it cannot be begun.
            UnreachedError: the connection was lost.
        """
        nonce = secrets.token_hex(8)
        return await self.begin("serve", folder, nonce), nonce


class _RemoteProcess:
    """A program of the agent that runs on a host."""

    def __init__(self, process: "SSHClientProcess[bytes]") -> None:
        self._process = process
        self._held = memoryview(b"")

    async def read(self, most: int) -> bytes:
        # All that asyncssh holds, each time: once a packet of it is taken, it lets the host send a
        # whole window more, so that a reader of small pieces would have it hold all of the output.
        if not self._held:
            with _told_as_os_error():
                self._held = memoryview(await self._process.stdout.read(2 * WINDOW_BYTES))
        piece, self._held = self._held[:most], self._held[most:]
        return bytes(piece)

    async def write(self, content: bytes) -> None:
        with _told_as_os_error():
            self._process.stdin.write(content)
            await self._process.stdin.drain()

    async def end_input(self) -> None:
        with suppress(OSError):
            self._process.stdin.write_eof()

    async def complaint(self) -> bytes:
        with anyio.move_on_after(COMPLAINT_S), _told_as_os_error():
            return await self._process.stderr.read(COMPLAINT_BYTES)
        return b""

    async def status(self) -> int | None:
        await self._process.wait_closed()
        return self._process.exit_status

    async def aclose(self) -> None:
        self._process.close()


@contextmanager
def _told_as_os_error() -> Iterator[None]:
    """Turn an error of asyncssh's into one of the system's."""
    import asyncssh

    try:
        yield
    except asyncssh.Error as error:
        raise ConnectionError(str(error)) from error


class SshBackend(SupervisedBackend):
    """Runs attempts on hosts that sshd lets us into; use it as an async context."""

    def __init__(self, settings: SshSettings, start_us: int = 0) -> None:
        limit = anyio.Semaphore(settings.simultaneous)
        hosts = [SshTransport(host, settings, limit) for host in settings.hosts]
        super().__init__(settings, settings.owner, hosts, start_us)


# What hosts have, for `shunter init --ssh` and `doctor`.

INVENTORY_S = 60.0


@dataclass(frozen=True, slots=True)
class HostInventory:
    """What a host has, or why nobody knows.

    `found` is the answer of `shunter.backends.node.host.host_inventory`, and `gpu_fault` why
    neither NVML nor nvidia-smi names a GPU. `ahead_s` is how far its wall clock is ahead of ours,
    and `slow_s` how long connecting and answering took.
    """

    host: SshHost
    found: dict[str, Any] | None = None
    cause: str = ""
    ahead_s: float = 0.0
    slow_s: float = 0.0


def host_inventories(
    hosts: tuple[SshHost, ...], access: SshAccess, connect_s: float
) -> list[HostInventory]:
    """Ask all hosts at once; return what each has, in the order given."""
    return anyio.run(_take_inventories, hosts, access, connect_s)


async def _take_inventories(
    hosts: tuple[SshHost, ...], access: SshAccess, connect_s: float
) -> list[HostInventory]:
    settings = SshSettings(hosts, access, "", 0, "", "", connect_s=connect_s)
    limit = anyio.Semaphore(settings.simultaneous)
    found: dict[str, HostInventory] = {}

    async def ask(host: SshHost) -> None:
        found[host.name] = await _take_inventory(host, settings, limit)

    async with anyio.create_task_group() as tasks:
        for host in hosts:
            tasks.start_soon(ask, host)
    return [found[host.name] for host in hosts]


async def _take_inventory(
    host: SshHost, settings: SshSettings, limit: anyio.Semaphore
) -> HostInventory:
    began_s = clock.monotonic_s()
    try:
        async with SshTransport(host, settings, limit).opened() as link:
            asked_s = clock.wall_s()
            words = ["survey", host.base, host.cgroup]
            answer: dict[str, Any] = await run_verb(
                link, host.name, words, limit_s=INVENTORY_S, shape=an_object
            )
            # Its clock was read within the question: half of that is what nobody can know.
            middle_s = (asked_s + clock.wall_s()) / 2
    except BackendError as error:
        return HostInventory(host, cause=str(error))
    ahead_s = float(answer["wall_s"]) - middle_s
    answer["gpu_fault"] = _why_no_gpus(answer)
    return HostInventory(host, answer, ahead_s=ahead_s, slow_s=clock.monotonic_s() - began_s)


def _why_no_gpus(answer: Mapping[str, Any]) -> str:
    """Return what NVML and nvidia-smi said where they told of no GPU."""
    if answer["gpus"] or answer["gpus_lost"]:
        return "" if answer["gpus"] else "all are lost"
    return why_unseen(answer["gpu_code"], answer["gpu_said"])
