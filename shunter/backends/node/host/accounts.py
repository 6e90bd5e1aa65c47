"""The users of a node: who a job runs as, and how a process of root becomes that user.

What belongs to a user is read and written by a process with the rights of that user: the kernel
refuses then what the user could not do, wherever a link in a folder of theirs may lead. Nobody
waits for it without a limit, for a file system of the user's may never answer.
"""

from __future__ import annotations

import json
import os
import pwd
import select
import signal
import time
from typing import TYPE_CHECKING

from shunter.backends.node.messages import User

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from shunter.backends.node.messages import Order

AS_USER_S = 5.0
REAP_S = 2.0
STDOUT = 1


def account(name: str) -> User | None:
    """Return the ids and home of a job's user; None if that is who we are.

    Raises:
        ValueError: this node has no such user.
    """
    if not name or os.geteuid() != 0:
        return None
    try:
        who = pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"user {name} is not known on this host") from None
    groups = tuple(os.getgrouplist(name, who.pw_gid))
    return User(uid=who.pw_uid, gid=who.pw_gid, groups=groups, home=who.pw_dir)


def at_home(order: Order) -> Order:
    """Return an order as this node understands it: its users, homes, search path."""
    name = order.user_name
    user = account(name)
    who = pwd.getpwuid(os.geteuid())
    home = user.home if user else os.environ.get("HOME", who.pw_dir)
    named = name if user else who.pw_name
    given = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "USER": named}
    ranks = tuple([rank.replaced(env={**given, **rank.env}) for rank in order.ranks])
    return order.replaced(user=user, ranks=ranks)


def become(user: User | None) -> None:
    """Have no rights but those of a user from here on; None changes nothing.

    The real and the saved id stay root's: by these the kernel decides who may send signals, and a
    user who could stop us would have us wait, with all that waits for us.
    """
    if user is None:
        return
    os.setgroups(user.groups)
    os.setegid(user.gid)
    os.seteuid(user.uid)


def as_user(
    user: User | None,
    work: Callable[[], Mapping[str, object] | None],
    within_s: float | None = AS_USER_S,
) -> dict[str, Any]:
    """Do work in a process with the rights of a user; return its answer, if any.

    It is {"error": why} if the work failed, or took longer than `within_s`, in seconds: then the
    process is killed. None: it may take as long as somebody listens to our output.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            become(user)
            os.umask(0o077)
            try:
                found = work() or {}
            except (OSError, ValueError, KeyError, EOFError) as error:
                found = {"error": str(error)}
            with open(writer, "w", encoding="utf-8") as file:
                json.dump(found, file)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        said = _said_by(reader, within_s)
    finally:
        os.close(reader)
    if said is None:
        os.kill(child, signal.SIGKILL)
    _wait_for_child(child)
    if said is None:
        waited = "nobody waits for it" if within_s is None else f"not done within {within_s:g} s"
        return {"error": f"stopped: {waited}"}
    found = json.loads(said) if said else {"error": "the process that did it was killed"}
    assert isinstance(found, dict), "work answers with a record"
    return found


def _said_by(reader: int, within_s: float | None) -> bytes | None:
    """Read what a process says to its end; None if it takes too long."""
    until_s = None if within_s is None else time.monotonic() + within_s
    poll, said = select.poll(), bytearray()
    poll.register(reader, select.POLLIN)
    if until_s is None:
        poll.register(STDOUT, 0)  # tells once nobody reads it any more
    while True:
        left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
        ready = poll.poll(None if left_s is None else left_s * 1000)
        if not ready or any(file == STDOUT for file, _ in ready):
            return None
        piece = os.read(reader, 1 << 16)
        if not piece:
            return bytes(said)
        said += piece


def _wait_for_child(child: int) -> None:
    """Bury a process; one that the kernel does not let die now is left to be."""
    until_s = time.monotonic() + REAP_S
    while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < until_s:
        time.sleep(0.001)
