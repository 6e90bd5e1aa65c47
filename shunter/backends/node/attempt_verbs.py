"""The verbs that ask of attempts, as verbs.py lists them: what each takes, and what it answers.

Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

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

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Answer, Probe


def start_told(root: str) -> Answer:
    """Start the attempt whose order stdin holds."""
    from shunter.backends.node.supervisor import start  # more than all the other verbs need

    own_folder(f"{root}/jobs")
    return start(root, json.load(sys.stdin))


def send_told(root: str, job: str, attempt: str) -> Answer:
    """Hand the order in stdin to the supervisor of an attempt."""
    return {"taken": send(folder_of(root, job, int(attempt)), json.load(sys.stdin))}


def term_told(root: str, term: str) -> Answer:
    """Raise the term of a root; return the one in force."""
    return {"term": raise_term(root, int(term))}


def fence_told(root: str, job: str, attempt: str) -> Answer:
    """Raise the fence of a job; return the one in force."""
    return {"attempt": raise_fence(root, job, int(attempt))}


def probe_told(root: str, job: str, attempt: str) -> Answer:
    """Return the state of an attempt, and its journal."""
    return _with_notes(probe(folder_of(root, job, int(attempt))))


def inventory_told(root: str) -> Answer:
    """Return all attempts of a root, its term, and when they were looked for."""
    now_ns = time.monotonic_ns()  # before the look: what is absent was absent after this
    term = count_in(f"{root}/term", "term")
    found = [_with_notes(known) for known in inventory(root)]
    return {"attempts": found, "term": term, "boot": boot_id(), "now_ns": now_ns}


def sweep_told(root: str, job: str, attempt: str) -> Answer:
    """Kill what an attempt without a supervisor has left; return how much there was."""
    return {"left": sweep(folder_of(root, job, int(attempt)))}


def beat_told(root: str) -> Answer:
    """Note that the daemon is alive."""
    write_beat(f"{root}/heartbeat")
    return {"beaten": True}


def _with_notes(known: Probe) -> Answer:
    return {**known, "notes": read_journal(known["folder"])["notes"]}
