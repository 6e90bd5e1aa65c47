"""What can be asked of a node from outside, one process a question: a verb, and a line of JSON.

    python3 -I -S FILE start ROOT < ORDER       {"answer": "started" | "known" | "refused", ...}
    python3 -I -S FILE send ROOT JOB ATTEMPT < ORDER    {"taken": whether somebody reads it}
    python3 -I -S FILE term ROOT TERM           {"term": the one in force}
    python3 -I -S FILE fence ROOT JOB ATTEMPT   {"attempt": the fence in force}
    python3 -I -S FILE probe ROOT JOB ATTEMPT   its state, and its journal as "notes"
    python3 -I -S FILE inventory ROOT           {"attempts": [...], "term", "boot", "now_ns"}
    python3 -I -S FILE sweep ROOT JOB ATTEMPT   {"left": how much was still there}
    python3 -I -S FILE beat ROOT                {"beaten": true}: the daemon is alive
    python3 -I -S FILE serve BASE NONCE         many questions in turn: remote/session.py
    python3 -I -S FILE ages|prune ROOT NONCE    what jobs that ended have left: remote/pruning.py
    python3 -I -S FILE survey BASE CGROUP NONCE what the host has: remote/host_inventory.py
    python3 -I -S FILE gpus BASE NONCE          what its GPUs tell: remote/gpus.py
    python3 -I -S FILE manifest|digest|stream|receive FOLDER USER NONCE
                                                checkpoints: remote/checkpoint_transfer.py

Only the standard library of Python 3.8 or later, as in supervisor.py. What fails exits with 1 and
says so on stderr; without an answer on stdout, nothing is known of what was done.
"""

# Paths are strings, as in supervisor.py.

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import (
    inventory,
    probe,
    raise_fence,
    raise_term,
    send,
    sweep,
)
from shunter.backends.node.heartbeat import write_beat
from shunter.backends.node.messages.journal import read_journal
from shunter.backends.node.records import boot_id, count_in, folder_of, own_folder
from shunter.backends.node.remote.checkpoint_transfer import digest, manifest, receive, stream
from shunter.backends.node.remote.gpus import gpus
from shunter.backends.node.remote.host_inventory import host_inventory
from shunter.backends.node.remote.pruning import ages, prune
from shunter.backends.node.remote.session import serve
from shunter.backends.node.supervisor import start

if TYPE_CHECKING:
    from collections.abc import Callable

    from shunter.backends.node.messages.wire import Answer, Probe

    Verb = Callable[..., Answer]


def command(verb: str, root: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """Return the command that asks this machine, from the files of the package."""
    package = __file__.rsplit("/", 4)[0]
    program = (
        f"import sys; sys.path.insert(0, {package!r}); "
        "from shunter.backends.node.verbs import main; main()"
    )
    return [python, "-I", "-S", "-c", program, verb, root, *arguments]


def main() -> None:
    """Answer the verb of the command line."""
    verb, root, *arguments = sys.argv[1:]
    sys.stdout.write(json.dumps(answer(verb, root, *arguments)) + "\n")


def answer(verb: str, root: str, *arguments: str) -> Answer:
    """Do what a verb says below a root folder.

    Raises:
        KeyError: there is no such verb.
    """
    return _VERBS[verb](root, *arguments)


def _start(root: str) -> Answer:
    own_folder(f"{root}/jobs")
    return start(root, json.load(sys.stdin))


def _send(root: str, job: str, attempt: str) -> Answer:
    return {"taken": send(folder_of(root, job, int(attempt)), json.load(sys.stdin))}


def _term(root: str, term: str) -> Answer:
    return {"term": raise_term(root, int(term))}


def _fence(root: str, job: str, attempt: str) -> Answer:
    return {"attempt": raise_fence(root, job, int(attempt))}


def _probe(root: str, job: str, attempt: str) -> Answer:
    return _told(probe(folder_of(root, job, int(attempt))))


def _inventory(root: str) -> Answer:
    now_ns = time.monotonic_ns()  # before the look: what is absent was absent after this
    term = count_in(f"{root}/term", "term")
    found = [_told(known) for known in inventory(root)]
    return {"attempts": found, "term": term, "boot": boot_id(), "now_ns": now_ns}


def _sweep(root: str, job: str, attempt: str) -> Answer:
    return {"left": sweep(folder_of(root, job, int(attempt)))}


def _beat(root: str) -> Answer:
    write_beat(f"{root}/heartbeat")
    return {"beaten": True}


def _told(known: Probe) -> Answer:
    return {**known, "notes": read_journal(known["folder"])["notes"]}


_VERBS: dict[str, Verb] = {
    "start": _start,
    "send": _send,
    "term": _term,
    "fence": _fence,
    "probe": _probe,
    "inventory": _inventory,
    "sweep": _sweep,
    "beat": _beat,
    "ages": ages,
    "prune": prune,
    "serve": serve,
    "gpus": gpus,
    "survey": host_inventory,
    "manifest": manifest,
    "digest": digest,
    "stream": stream,
    "receive": receive,
}
