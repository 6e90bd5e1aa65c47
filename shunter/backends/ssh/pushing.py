"""The one file that a host needs, put there once for each version of it.

Its name holds its digest, so what lies there under that name is right or was never finished. It is
written under a name of its own for each push, synced, and renamed over whatever is there. Hosts
whose shell prints something break SFTP; there the file goes through a command instead.
"""

import json
import secrets
import shlex
from functools import cache
from typing import TYPE_CHECKING

import anyio

from shunter.backends.node.bundle import bundle, digest
from shunter.backends.ssh.connecting import UnreachedError
from shunter.backends.ssh.settings import SshHost

if TYPE_CHECKING:
    from asyncssh import SFTPClient, SSHClientConnection

__all__ = ["pushed"]

SFTP_S = 5.0
# No single quotes in it, so that every login shell hands it over as it is.
WRITER = (
    "import os,sys;n,b,f,z,t=sys.argv[1:];b=os.path.abspath(os.path.expanduser(b));"
    "p=os.path.join(b,f);c=sys.stdin.buffer.read(int(z));os.makedirs(b,0o711,exist_ok=True);"
    'w=open(p+t,"wb");w.write(c);w.flush();os.fsync(w.fileno());w.close();os.replace(p+t,p);'
    'print("\\n"+n,p)'
)


async def pushed(connection: "SSHClientConnection", host: SshHost, limit_s: float) -> str:
    """Make sure that the file is on a host; return its path there.

    Raises:
        UnreachedError: it cannot be put there; the host may be full, or have no Python.
    """
    import asyncssh

    content = _content()
    name = f"shunter-{digest(content)}.py"
    try:
        with anyio.fail_after(min(SFTP_S, limit_s)):
            async with connection.start_sftp_client() as sftp:
                return await _by_sftp(sftp, host.base, name, content)
    except asyncssh.SFTPPermissionDenied as error:
        raise UnreachedError(f"host {host.name}: cannot write to {host.base}: {error}") from error
    except (asyncssh.Error, OSError, TimeoutError):
        return await _by_command(connection, host, name, content, limit_s)


@cache
def _content() -> bytes:
    """Return the file; this process keeps to one, whatever becomes of its sources."""
    return bundle()


async def _by_sftp(sftp: "SFTPClient", base: str, name: str, content: bytes) -> str:
    home = str(await sftp.realpath("."))
    folder = home + base[1:] if base == "~" or base.startswith("~/") else base
    path = f"{folder}/{name}"
    if await sftp.exists(path) and await sftp.getsize(path) == len(content):
        return path
    if not await sftp.isdir(folder):
        await sftp.makedirs(folder, exist_ok=True)
        await sftp.chmod(folder, 0o711)  # the users of jobs pass through it
    temporary = f"{path}.{secrets.token_hex(8)}"  # of this call: two pushes must not meet
    try:
        async with sftp.open(temporary, "wb") as file:
            await file.write(content)
            await file.fsync()
        await sftp.posix_rename(temporary, path)  # a plain rename refuses to replace a file
    finally:
        with anyio.move_on_after(1.0, shield=True):
            if await sftp.exists(temporary):
                await sftp.remove(temporary)
    return path


async def _by_command(
    connection: "SSHClientConnection", host: SshHost, name: str, content: bytes, limit_s: float
) -> str:
    import asyncssh

    nonce, temporary = secrets.token_hex(8), f".{secrets.token_hex(8)}"
    words = [nonce, host.base, name, str(len(content)), temporary]
    command = " ".join(
        [shlex.quote(host.python), "-I -S -c", f"'{WRITER}'", *map(shlex.quote, words)]
    )
    try:
        with anyio.fail_after(limit_s):
            ran = await connection.run(command, input=content, encoding=None)
            out, err = _text(ran.stdout), _text(ran.stderr)
    except (asyncssh.Error, OSError, TimeoutError) as error:
        raise UnreachedError(f"host {host.name} does not take the supervisor: {error!r}") from error
    for line in reversed(out.splitlines()):
        if line.startswith(f"{nonce} "):
            return line.partition(" ")[2]
    raise UnreachedError(
        f"host {host.name} does not take the supervisor: {host.python} said "
        f"{json.dumps(err.strip()[-300:])}; "
        "expected Python 3.8 or later, and room in " + host.base
    )


def _text(said: bytes | str | None) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else said or ""
