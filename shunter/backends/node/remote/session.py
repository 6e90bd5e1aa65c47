"""An RPC session on a node over one connection: questions in, answers and news out.

    python3 -I -S FILE serve BASE NONCE

The first line on stdout is the nonce and a greeting; whatever comes before it is a shell's noise.
Then each line of stdin is a question {"id", "do", ...} that gets one line {"id", ...}, and a line
{"changed": [...]} without an id tells of attempts as soon as their supervisors do. What fails is
answered by {"error": why}. The session ends with its stdin; what it started runs on.

One scheduler owns BASE at a time (`claim`); what it runs lies below BASE/clusters/CLUSTER, as
supervisor.py says. A daemon's own machine has one cluster, in BASE itself. Supervisors are forked
from here, so that a job costs no start of Python. Only the standard library of Python 3.8 or later.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH100, PTH111, PTH116, PTH120

from __future__ import annotations

import gc
import json
import os
import re
import select
import sys
import time
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import (
    end_alone,
    inventory,
    is_held,
    known_of,
    numbers_in,
    open_notices,
    probe,
    raise_fence,
    raise_term,
    running,
)
from shunter.backends.node.heartbeat import uptime_ns, write_beat
from shunter.backends.node.messages.attempt_records import a_job, number_of
from shunter.backends.node.messages.shapes import PROTOCOL, READ_BYTES_MAX, checked
from shunter.backends.node.output.files import piece_of
from shunter.backends.node.processes.attempt_watch import UNREAD
from shunter.backends.node.processes.unanswered import Unanswered
from shunter.backends.node.ranks import is_free
from shunter.backends.node.records import (
    boot_id,
    folder_of,
    get,
    own_folder,
    put,
)
from shunter.backends.node.remote.accounts import as_user, at_home
from shunter.backends.node.remote.checkpoint_transfer import (
    open_checkpoints,
    open_shared_checkpoints,
)
from shunter.backends.node.remote.gpus import Readings, gpus_command
from shunter.backends.node.remote.ownership import base_of, taken
from shunter.backends.node.remote.reports import Reports
from shunter.backends.node.remote.switching import Switches
from shunter.backends.node.shares.enforcement import Enforcement
from shunter.backends.node.supervisor import answer_of, begin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shunter.backends.node.messages.wire import (
        Answer,
        Found,
        Order,
        Question,
    )

IDLE_S = 10.0
SWEEP_S = 0.05
TOLD_OF_JOB = 4096  # half of the longest line there may be
OUTPUT = re.compile(r"(stdout|stderr)(-times)?\.[0-9]+")


def serve(base: str, nonce: str) -> Answer:
    """Converse until stdin ends; return nothing more to say."""
    base = os.path.abspath(os.path.expanduser(base))
    session = Session(base_of(base), nonce)
    session.greet()
    session.run()
    return {}


class Session:
    """One session: what it owns, and what it has sent already."""

    def __init__(self, base: str, nonce: str) -> None:
        self.base, self.nonce = base, nonce
        self.root = self.cluster = ""
        self.term = 0
        self.enforcement: Enforcement | None = None
        self.notices = self.session = -1
        self.starting: dict[int, tuple[Question, Order]] = {}
        self.switches, self.unanswered = Switches(), Unanswered()
        self.readings = Readings(gpus_command())
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN)
        self.reports = Reports(self.poll)
        os.register_at_fork(after_in_child=self._let_go)

    def greet(self) -> None:
        """Say who is there, after a mark that no shell's noise holds."""
        os.write(1, f"\n{self.nonce} ".encode())
        self._say(
            {
                "protocol": PROTOCOL,
                "base": self.base,
                "boot": boot_id(),
                "now_ns": time.monotonic_ns(),
                "up_ns": uptime_ns(),
                "wall_s": time.time(),
                "python": list(sys.version_info[:3]),
                "uid": os.geteuid(),
            }
        )

    def run(self) -> None:
        """Answer questions and tell news until stdin ends or somebody else listens here."""
        import ctypes  # noqa: F401  every supervisor needs it, and inherits it

        gc.collect()
        gc.freeze()  # a supervisor that collected garbage would copy all that it inherits
        left, swept_s = b"", 0.0
        while True:
            wait_s = SWEEP_S if self.reports.again or self.switches.under_way else IDLE_S
            ready = [file for file, _ in self.poll.poll(1000 * wait_s)]
            _reap_supervisors()
            self.unanswered.look()
            if self.root and (get(f"{self.root}/listener") or {}).get("nonce") != self.nonce:
                return
            if self.reports.again and time.monotonic() >= swept_s + SWEEP_S:
                swept_s = time.monotonic()
                self._tell(sorted(self.reports.again))
            for file in ready:
                if file in self.starting:
                    self._finish(file)
                elif file in self.reports.ends:
                    self._tell([self.reports.ended(file)])
            if self.notices in ready:
                self._tell_news()
            if 0 in ready:
                read = os.read(0, 1 << 16)
                if not read:
                    return
                *lines, left = (left + read).split(b"\n")
                for line in lines:
                    self._answer(json.loads(line))
            for question, found in self.switches.over():
                self._reply(question, found)

    def _answer(self, question: Question) -> None:
        try:
            found = _ANSWERS[question["do"]](self, question)
        except (OSError, KeyError, ValueError) as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        if found is not None:
            self._reply(question, found)

    def _reply(self, question: Question, found: Answer) -> None:
        clocks = {"now_ns": time.monotonic_ns(), "up_ns": uptime_ns()}
        self._say({"id": question.get("id"), **clocks, **found})

    def _say(self, line: Answer) -> None:
        left = json.dumps(line).encode() + b"\n"
        while left:
            left = left[os.write(1, left) :]

    def claim(self, question: Question) -> Answer:
        """Take the node for one term of one scheduler, unless it is another's."""
        self.cluster = question["cluster"]
        if self.cluster:
            refusal, self.session = taken(self.base, question)
            if refusal is not None:
                return refusal
        self.root = f"{self.base}/clusters/{self.cluster}" if self.cluster else self.base
        self.term = raise_term(self.root, question["term"])
        if self.term != question["term"]:
            cause = f"term {question['term']} was replaced by {self.term}"
            return {"refused": "replaced", "cause": cause}
        self.enforcement = Enforcement(
            self.root, self.cluster, question["cgroup"], is_sized=question.get("is_sized", False)
        )
        self.notices = open_notices(self.root)
        self.poll.register(self.notices, select.POLLIN)
        self.reports.begin(self.root)
        self.enforcement.tidy()
        put(f"{self.root}/listener", {"nonce": self.nonce})
        self.beat(question)  # last: who is told of an error knows that there was no sign
        return {"root": self.root, "term": self.term, "shares": self.enforcement.words}

    def beat(self, question: Question) -> Answer:
        """Show a sign of the instant at which it was asked for, however late it comes."""
        write_beat(f"{self.root}/heartbeat", question["asked_ns"])
        return {}

    def look(self, question: Question) -> Answer:
        """Beat; return what has changed of attempts since it was told, or is asked anew.

        Of each that is watched the question says up to which note its journal was read, and up to
        which what was noted is durable. With `is_all`, no others are watched, and what is told once
        only is told: samples, and readings, also of GPUs that nobody has: they may be lost.
        """
        self.beat(question)
        for job, attempt in question["anew"]:
            self.reports.of(job, attempt).told = None
        keys = []
        for job, attempt, read, durable in question["watched"]:
            known = self.reports.of(job, attempt)
            known.read = read
            known.acknowledge(durable, self.term)
            keys.append((job, attempt))
        is_all = question["is_all"]
        if is_all:
            self.reports.forget_all_but(keys)
        return {
            "changed": self.reports.news(keys),
            "samples": self.reports.samples(keys) if is_all else [],
            "gpus": self.readings.poll() if is_all else None,
        }

    def start(self, question: Question) -> Answer | None:
        """Start an attempt, unless the question has been under way for too long.

        None: its supervisor is yet to tell what came of it.
        """
        order = question["order"]
        if uptime_ns() > question["before_ns"]:
            return {"answer": "late", "cause": "the order came too late"}
        order = self._held().placed(at_home(order), self.reports.ports)
        self._open_checkpoints(order)
        if self.cluster:
            self._check_way(order)
        is_new = self.reports.is_new(order["job"], order["attempt"])
        found, reader = begin(self.root, order, is_new=is_new)
        if reader < 0:
            return {**found, "known": self.reports.known(order["job"], order["attempt"])}
        self.starting[reader] = question, order
        self.poll.register(reader, select.POLLIN)
        return None

    def _finish(self, reader: int) -> None:
        """Answer what a supervisor tells of its start."""
        self.poll.unregister(reader)
        question, order = self.starting.pop(reader)
        found = answer_of(reader)
        self._reply(
            question, {**found, "known": self.reports.known(order["job"], order["attempt"])}
        )

    def fence(self, question: Question) -> Answer:
        """Let no attempt up to this one start, end those that have, tell of this."""
        job, last = question["job"], question["attempt"]
        raise_fence(self.root, job, last)
        known = []
        for attempt in [number for number in known_of(self.root, job) if number <= last]:
            folder = folder_of(self.root, job, attempt)
            if is_held(f"{folder}/lock"):
                self.unanswered.send(folder, {"do": "fence", "term": self.term})
            if attempt == last:  # a job may have had thousands
                known.append(self.reports.known(job, attempt))
        return {"fenced": known}

    def set_aside(self, question: Question) -> Answer:
        """End an attempt, unread; say whether it is over. A stray raises no fence."""
        job, attempt = question["job"], question["attempt"]
        if not question.get("is_stray"):
            raise_fence(self.root, job, attempt)
        return {"is_over": end_alone(self.root, job, attempt, self.term)}

    def send(self, question: Question) -> Answer:
        """Hand an order to a supervisor."""
        folder = folder_of(self.root, question["job"], question["attempt"])
        return {"taken": self.unanswered.send(folder, {**question["order"], "term": self.term})}

    def switch(self, question: Question) -> None:
        """Have some attempts stand still, then others go on; answered after that."""
        self.switches.begin(self.root, self.term, question)

    def reshape(self, question: Question) -> Answer:
        """Hold an attempt that runs to other shares; return what it has now."""
        job, attempt, shares = question["job"], question["attempt"], question["shares"]
        return self._held().change(job, attempt, shares, self.reports.ports)

    def inventory(self, question: Question) -> Answer:
        """Return the newest attempts of one job, or some and all that run, or all."""
        job, wanted = question.get("job"), question.get("wanted")
        if job is not None:
            found: list[Found] = [
                {"job": job, "attempt": number, **probe(folder_of(self.root, job, number))}
                for number in numbers_in(f"{self.root}/jobs/{job}")[-TOLD_OF_JOB:]
            ]
        elif wanted is not None:
            found = running(self.root, [(name, attempt) for name, attempt in wanted])
        else:
            found = inventory(self.root)
        return {"attempts": [{**each, **UNREAD} for each in found]}

    def read(self, question: Question) -> Answer:
        """Return a piece of what a rank printed, and how much there is."""
        if not OUTPUT.fullmatch(question["name"]):
            raise ValueError(f"no output is named {question['name']!r}")
        path = f"{folder_of(self.root, question['job'], question['attempt'])}/{question['name']}"
        data, size = piece_of(path, question["offset"], min(question["bytes"], READ_BYTES_MAX))
        return {"data": data.decode("latin-1"), "size": size}

    def port(self, question: Question) -> Answer:
        """Return the first port of some that is free here; None if none is.

        That nobody listens on it yet means little: ranks import for a while before they do. So
        those that attempts were given are taken as long as these run, whoever started them.
        """
        taken = set(self.reports.ports.values())
        ports = (port for port in question["ports"] if port not in taken)
        return {"port": next((port for port in ports if is_free(port)), None)}

    def _held(self) -> Enforcement:
        """Return what holds attempts to their shares; raise ValueError before the claim."""
        if self.enforcement is None:
            raise ValueError("no scheduler has claimed this node yet")
        return self.enforcement

    def _open_checkpoints(self, order: Order) -> None:
        """Make the folder of a job's checkpoints, unless it is there."""
        folder, user = order["checkpoints"], order["user"]
        if not folder.startswith(f"{self.root}/"):
            open_shared_checkpoints(folder, user)
            return
        own_folder(os.path.dirname(folder))
        open_checkpoints(folder, user)

    def _check_way(self, order: Order) -> None:
        """Refuse an order whose user cannot get to what lies here."""
        place, user = f"{self.root}/jobs", order["user"]
        found = (
            {} if user is None else as_user(user, lambda: {"mode": os.stat(f"{place}/.").st_mode})
        )
        if "error" not in found:
            return
        raise ValueError(
            f"user {order['user_name']} cannot pass through {place} ({found['error']}): "
            "set [backend.ssh] base to a folder that all may enter, such as /var/lib/shunter"
        )

    def _tell(self, attempts: Iterable[tuple[str, int]]) -> None:
        changed = self.reports.changed(attempts)
        if changed:
            self._say({"changed": changed, "now_ns": time.monotonic_ns()})

    def _tell_news(self) -> None:
        named = os.read(self.notices, 1 << 16).decode("ascii", "replace").split()
        attempts = []
        for each in dict.fromkeys(named):
            job, _, attempt = each.partition("/")
            number = number_of(attempt)
            if number is not None and checked(job, a_job) is not None:
                attempts.append((job, number))
        self._tell(attempts)

    def _let_go(self) -> None:
        """Close, in a supervisor, what would seem to be held or read there for ever."""
        for held in (self.notices, self.session, *self.starting, *self.reports.ends):
            if held >= 0:
                os.close(held)
        self.notices = self.session = -1
        self.starting, self.reports.ends = {}, {}


def _reap_supervisors() -> None:
    """Bury the supervisors that were started here and have ended since."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return


_ANSWERS = {
    "claim": Session.claim,
    "beat": Session.beat,
    "look": Session.look,
    "start": Session.start,
    "fence": Session.fence,
    "set_aside": Session.set_aside,
    "send": Session.send,
    "reshape": Session.reshape,
    "switch": Session.switch,
    "inventory": Session.inventory,
    "read": Session.read,
    "port": Session.port,
}
