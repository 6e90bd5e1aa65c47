"""The one file that a host needs, put there once for each version of it.

Before anything is written or run, a program that comes over the connection looks at the folder and
all it lies in: see `shunter.backends.node.remote.base_folder`. The file's name holds its digest,
but what lies there under that name counts only if it is ours and byte for byte the same.
"""

import json
import secrets
from functools import cache
from typing import TYPE_CHECKING

import anyio

from shunter.backends.agents.transport import (
    TooMuchSaidError,
    UnreachedError,
    hinted,
    is_too_old,
)
from shunter.backends.agents.zip_application import digest, installer, zip_application
from shunter.backends.ssh.connecting import quoted, ran_on
from shunter.backends.ssh.settings import SshHost

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection


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
