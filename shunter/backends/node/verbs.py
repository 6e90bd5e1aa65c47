"""What can be asked of a node from outside, one process a question: a verb, and a line of JSON.

    python3 -I -S FILE start ROOT < ORDER       {"answer": "started" | "known" | "refused", ...}
    python3 -I -S FILE serve BASE NONCE         many questions in turn: session.py
    python3 -I -S FILE pilot PILOT_FILE BASE    the same for a daemon that it dials: pilot.py
    python3 -I -S FILE batch ROOT JOB ATTEMPT   an attempt that is a batch job: batch.py
    python3 -I -S FILE ages|prune ROOT NONCE    what jobs that ended have left: host/pruning.py
    python3 -I -S FILE survey BASE CGROUP NONCE what the host has: host/host_inventory.py
    python3 -I -S FILE gpus BASE NONCE          its GPUs: host/gpus.py
    python3 -I -S FILE wiring BASE NONCE        how they are wired: host/wiring.py
    python3 -I -S FILE note_wiring BASE         the same, written into BASE/wiring
    python3 -I -S FILE manifest|digest|stream|receive FOLDER USER NONCE
                                                checkpoints: host/checkpoint_transfer.py

A verb loads no more than it needs, since each process on a host compiles that. What fails exits
with 1 and says so on stderr; without an answer on stdout, nothing is known of what was done.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FOLDER = "shunter.backends.node"
VERBS = {
    "start": "supervision:answer_start",
    "ages": "host.pruning:ages",
    "prune": "host.pruning:prune",
    "serve": "session:serve",
    "pilot": "pilot:pilot",
    "batch": "batch:batch",
    "gpus": "host.gpus:gpus",
    "wiring": "host.wiring:host_wiring",
    "note_wiring": "host.wiring:note_wiring",
    "survey": "host.host_inventory:host_inventory",
    "manifest": "host.checkpoint_transfer:manifest",
    "digest": "host.checkpoint_transfer:digest",
    "stream": "host.checkpoint_transfer:stream",
    "receive": "host.checkpoint_transfer:receive",
}
"""Of each verb the module, below this folder, and the function in it."""


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


def answer(verb: str, root: str, *arguments: str) -> Mapping[str, object]:
    """Do what a verb says below a root folder.

    Raises:
        KeyError: there is no such verb.
    """
    module, _, name = VERBS[verb].partition(":")
    work: Callable[..., Mapping[str, object]] = getattr(import_module(f"{FOLDER}.{module}"), name)
    return work(root, *arguments)
