"""The one file that a host needs, put there once for each version of it.

Before anything is written or run, a program that comes over the connection looks at the folder and
all it lies in: see `shunter.backends.node.remote.base_folder`. The file's name holds its digest,
but what lies there under that name counts only if it is ours and byte for byte the same.
"""

import json
import secrets
import shlex
from functools import cache
from typing import TYPE_CHECKING

import anyio

from shunter.backends.agents.transport import UnreachedError, hinted
from shunter.backends.agents.zip_application import digest, installer, zip_application
from shunter.backends.ssh.connecting import ran_on
from shunter.backends.ssh.settings import SshHost

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

__all__ = ["installed"]

# No single quotes in it, so that every login shell hands it over as it is.
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
    start = [shlex.quote(host.python), "-I", "-S", "-c", f"'{BEGIN}'"]
    command = " ".join([*start, *map(shlex.quote, words)])
    try:
        with anyio.fail_after(limit_s):
            _, out, err = await ran_on(ssh, command, program + content)
    except (asyncssh.Error, OSError, TimeoutError) as error:
        raise UnreachedError(f"host {host.name} does not take the agent: {error!r}") from error
    answer = out.rpartition(f"\n{nonce} ".encode())[2] if nonce.encode() in out else b""
    if not answer:
        words_said = hinted(err.decode("utf-8", "replace"))
        raise UnreachedError(
            f"host {host.name} does not take the agent: {host.python} said {words_said}; "
            f"expected Python 3.8 or later, and room in {host.base}"
        )
    found = json.loads(answer)
    if "unsafe" in found:
        raise UnreachedError(
            f"host {host.name} is not used, since others could have their programs run there as "
            f"who logs in ({found['unsafe']}): set [backend.ssh] base to a folder that only root "
            "or who logs in may write to, as all above it, such as /var/lib/shunter"
        )
    if "error" in found:
        raise UnreachedError(f"host {host.name}: cannot write to {found['error']}")
    return str(found["path"])


@cache
def _programs() -> tuple[bytes, bytes]:
    """Return installer and file, as this process keeps to them."""
    return installer(), zip_application()
