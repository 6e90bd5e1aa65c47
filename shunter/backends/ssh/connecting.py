"""One connection to a host, opened as told, and errors in words that say what to do.

Nothing leaks in: no user configuration, no agent, no default keys, and a host key is known or the
host is refused. What goes wrong becomes an `UnreachedError` with the cause and how to mend it.
"""

import asyncio
import os
import shlex
import stat
import traceback
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from shunter.backends.agents.transport import UnreachedError, read_all
from shunter.backends.ssh.settings import SshAccess, SshHost, SshSettings

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHReader


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
    """Refuse files that others can read or change, as ssh does.

    Raises:
        UnreachedError: a key may be known to others, or others say whom we believe.
    """
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
