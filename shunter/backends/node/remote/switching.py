"""A switch on a node: some attempts stand still, and then, not before, others go on.

One question does both, so that a scheduler which gives GPUs by turns waits for one answer, and the
processes of both never run at once. Supervisors do it, as they do when told to stop or continue;
whether it is done the kernel says, by the states of processes. What is gone holds nobody up. Asked
again, a switch changes nothing. Only the standard library of Python 3.8 or later, as in
supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH123

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import pids_of, probe, send
from shunter.backends.node.records import folder_of, processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shunter.backends.node.messages.wire import Answer, Question

    Key = tuple[str, int]

LIMIT_S = 3.0
"""For so long who is to stand still may take, and who is to go on."""


class Switches:
    """The switches that are under way on a node."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Question, _Switch]] = []

    def begin(self, root: str, term: int, question: Question) -> None:
        """Begin a switch of attempts below a root."""
        self.under_way.append((question, _Switch(root, term, question)))

    def over(self) -> Iterator[tuple[Question, Answer]]:
        """Do what is due, and return the answers to switches that are over by now."""
        for each in list(self.under_way):
            question, switch = each
            found = switch.look(time.monotonic())
            if found is not None:
                self.under_way.remove(each)
                yield question, found


class _Switch:
    """One of them."""

    def __init__(self, root: str, term: int, question: Question) -> None:
        self._root, self._term = root, term
        self._stops = [(job, attempt) for job, attempt in question["stops"]]
        self._continues = [(job, attempt) for job, attempt in question["continues"]]
        self._is_continued, self._due_s = False, time.monotonic() + LIMIT_S
        self._send("stop", self._stops)

    def look(self, now_s: float) -> Answer | None:
        """Do what is due; return how all stand once that is over, None before.

        Nobody goes on while somebody runs that should not.
        """
        parents = processes()
        still = {key: self._stance(key, parents) for key in self._stops}
        is_clear = not {"running", "starting"}.intersection(still.values())
        if is_clear and not self._is_continued:
            self._is_continued, self._due_s = True, now_s + LIMIT_S
            self._send("continue", self._continues)
        going = {key: self._stance(key, parents) for key in self._continues}
        is_over = self._is_continued and "stopped" not in going.values()
        if not is_over and now_s < self._due_s:
            return None
        told = [
            {"job": job, "attempt": attempt, "stance": stance}
            for (job, attempt), stance in [*still.items(), *going.items()]
        ]
        return {"stands": told}

    def _send(self, do: str, keys: list[Key]) -> None:
        for key in keys:
            send(folder_of(self._root, *key), {"do": do, "term": self._term})

    def _stance(self, key: Key, parents: Mapping[int, int]) -> str:
        """Return whether an attempt stands still, or its state if it does not run."""
        state = probe(folder_of(self._root, *key))["state"]
        if state != "running":
            return state
        pids = pids_of(self._root, key, parents)
        return "stopped" if pids and all(map(_stands_still, pids)) else "running"


def _stands_still(pid: int) -> bool:
    """Say whether a process is stopped; one that has just ended is."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in b"TtZXx"
    except (OSError, IndexError):
        return True
