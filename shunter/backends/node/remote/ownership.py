"""Whose a node is: one scheduler owns its folder at a time, and keeps it while it is alive.

The file `owner` names the cluster, its term and the scheduler; a flock that each session holds
(`session.lock`) says that its scheduler is there. Only the standard library of Python 3.8 or later.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH123

from __future__ import annotations

import fcntl
import os
import platform
import time
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import inventory, is_held
from shunter.backends.node.heartbeat import silence_s
from shunter.backends.node.records import get, hold, make_folder, own_folder, put

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.backends.node.messages.wire import Answer, Question

NETWORKED = ("nfs", "nfs4", "lustre", "ceph", "beegfs", "gpfs", "glusterfs", "cifs", "fuse.sshfs")
OWNED_S = 60.0
LEAVE_TRIES = 20


def base_of(base: str, mounts: str = "/proc/mounts") -> str:
    """Return a node's own folder: its name, below one that others have too.

    Where homes lie on a network file system, all hosts have the same. A lock or a sign of life of
    one must not be taken for another's.
    """
    return f"{base}/{platform.node()}" if is_networked(base, mounts) else base


def is_networked(path: str, mounts: str = "/proc/mounts") -> bool:
    """Say whether a folder lies on a network file system."""
    kind, longest = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            for line in file:
                _, point, of, *_ = line.split()
                if f"{path}/".startswith(f"{point.rstrip('/')}/") and len(point) >= len(longest):
                    kind, longest = of, point
    except (OSError, ValueError):
        return False
    return kind in NETWORKED


def taken(base: str, claim: Question) -> tuple[Answer | None, int]:
    """Take a node for a scheduler, unless it is another's.

    Returns:
        why not, or None; and the file whose flock is to be held as long as the scheduler is there,
        or -1.
    """
    make_folder(base)
    held = hold(f"{base}/owner.lock", fcntl.LOCK_EX)
    assert held is not None, "a lock that waits was refused"
    try:
        owner = get(f"{base}/owner") or {}
        refusal = _refused(base, owner, claim)
        if refusal:
            return refusal, -1
        mine = {
            "cluster": claim["cluster"],
            "term": claim["term"],
            "holder": claim["holder"],
            "node": claim["node"],
        }
        if owner != mine:
            put(f"{base}/owner", mine)
        root = f"{base}/clusters/{claim['cluster']}"
        for each in (base, f"{base}/clusters", root, f"{root}/jobs"):
            own_folder(each)
        # Before anybody else can claim: an owner of whom there is no sign is taken for dead.
        session = hold(f"{root}/session.lock", fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None, -1 if session is None else session
    finally:
        os.close(held)


def _refused(base: str, owner: Mapping[str, object], claim: Question) -> Answer | None:
    """Return why a node cannot be claimed; None if it can."""
    if not owner:
        return None
    if owner.get("cluster") == claim["cluster"]:
        term = owner["term"]
        if not isinstance(term, int):
            raise ValueError(f"{base}/owner names no term")
        if term > claim["term"]:
            return {"refused": "replaced", "cause": f"term {term} rules here"}
        if term == claim["term"] and owner["holder"] != claim["holder"]:
            return {"refused": "taken", "cause": "a scheduler with a copy of this log rules here"}
        if term == claim["term"] and owner["node"] != claim["node"]:
            cause = f"{base} is the folder of {owner['node']} too: name another, base = PATH"
            return {"refused": "shared", "cause": cause}
        return None
    root = f"{base}/clusters/{owner.get('cluster')}"
    if not inventory(root) and _is_left(root) and not inventory(root):  # it may have begun since
        return None  # it died before it committed anything: nobody will ever bear its name again
    silent_s = silence_s(f"{root}/heartbeat")
    if silent_s is None:
        return None
    if silent_s <= OWNED_S or any(is_held(f"{each['folder']}/lock") for each in inventory(root)):
        return {"refused": "taken", "cause": f"the cluster {owner.get('cluster')} rules here"}
    return None


def _is_left(root: str) -> bool:
    """Say whether nobody talks of a cluster; one who leaves may take a moment."""
    for _ in range(LEAVE_TRIES):
        held = hold(f"{root}/session.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        if held is not None:
            os.close(held)
            return True
        time.sleep(0.1)
    return False
