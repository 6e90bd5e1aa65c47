"""The users of a node: who a job runs as, and how a process of root becomes that user.

What belongs to a user is read and written by a process that is that user: the kernel refuses then
what the user could not do, wherever a link in a folder of theirs may lead. Only the standard
library of Python 3.8 or later.
"""

from __future__ import annotations

import json
import os
import pwd
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def account(name: str) -> dict[str, Any] | None:
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
    groups = os.getgrouplist(name, who.pw_gid)
    return {"uid": who.pw_uid, "gid": who.pw_gid, "groups": groups, "home": who.pw_dir}


def at_home(order: dict[str, Any]) -> dict[str, Any]:
    """Return an order as this node understands it: its users, homes, search path."""
    name = order.get("user_name", "")
    user = account(name)
    who = pwd.getpwuid(os.geteuid())
    home = user["home"] if user else os.environ.get("HOME", who.pw_dir)
    named = name if user else who.pw_name
    given = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "USER": named}
    ranks = [{**rank, "env": {**given, **rank["env"]}} for rank in order["ranks"]]
    return {**order, "user": user, "ranks": ranks}


def become(user: dict[str, Any] | None) -> None:
    """Give up all rights but those of a user, for good; None changes nothing."""
    if user is None:
        return
    os.setgroups(user["groups"])
    os.setgid(user["gid"])
    os.setuid(user["uid"])


def as_user(user: dict[str, Any] | None, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do work in a process that is a user; return its answer.

    It is {"error": why} if the work failed.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            become(user)
            os.umask(0o077)
            try:
                found = work()
            except (OSError, ValueError, KeyError, EOFError) as error:
                found = {"error": str(error)}
            with open(writer, "w", encoding="utf-8") as file:  # noqa: PTH123  no path
                json.dump(found, file)
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as file:  # noqa: PTH123  no path
        said = file.read()
    os.waitpid(child, 0)
    found = json.loads(said) if said else {"error": "the process that did it was killed"}
    assert isinstance(found, dict), "work answers with a record"
    return found
