"""An RPC session on a node over one connection: questions in, answers and news out.

    python3 -I -S FILE serve BASE NONCE

The first line on stdout is the nonce and a greeting; whatever comes before it is a shell's noise.
Then each line of stdin is a question {"id", "do", ...} that gets one line {"id", ...}, and a line
{"changed": [...]} without an id reports attempts as soon as their supervisors do. What fails is
answered by {"error": why}. The session ends with its stdin; what it started runs on.

One scheduler owns BASE at a time (`claim`); what it runs is in BASE/clusters/CLUSTER, as
`shunter.backends.node` says. A daemon's own machine has one cluster, in BASE itself. Supervisors
are forked from here, so that a job costs no start of Python.
"""

from __future__ import annotations

import array
import fcntl
import gc
import json
import os
import re
import select
import signal
import stat
import sys
import termios
import time
from typing import TYPE_CHECKING

from shunter.backends.node import messages
from shunter.backends.node.attempts import (
    NO_END,
    alive_below,
    attempt_of,
    end_alone,
    inventory,
    is_held,
    known_of,
    numbers_in,
    open_notices,
    pids_of,
    probe,
    raise_fence,
    raise_term,
    running,
    send,
    sweep,
)
from shunter.backends.node.host.accounts import as_user, at_home
from shunter.backends.node.host.checkpoint_folders import open_checkpoints, open_shared_checkpoints
from shunter.backends.node.host.gpus import Readings, gpus_command
from shunter.backends.node.journal import read_journal
from shunter.backends.node.output import piece_of
from shunter.backends.node.ownership import base_of, taken, uptime_ns, write_beat
from shunter.backends.node.ranks import is_free
from shunter.backends.node.records import (
    boot_id,
    folder_of,
    get,
    kill,
    libc,
    own_folder,
    processes,
    put,
    reap_children,
    stands_still,
)
from shunter.backends.node.shapes import checked
from shunter.backends.node.shares import Enforcement
from shunter.backends.node.supervisors import Supervisors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any


IDLE_S = 10.0
SWEEP_S = 0.05
TOLD_OF_JOB = 4096  # half of the longest line there may be
OUTPUT = re.compile(r"(stdout|stderr)(-times)?\.[0-9]+")


def serve(base: str, nonce: str) -> dict[str, object]:
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
        self.starting: dict[int, object] = {}  # the ids of their questions, by supervisor
        self.supervised: dict[int, messages.Key] = {}
        self.switches, self.unanswered = Switches(), Unanswered()
        self.readings = Readings(gpus_command())
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN)
        self.reports = Reports(self.poll)
        self.supervisors = Supervisors(self.poll)

    def greet(self) -> None:
        """Say who is there, after a mark that no shell's noise holds."""
        os.write(1, f"\n{self.nonce} ".encode())
        greeting = messages.Greeting(
            base=self.base,
            boot=boot_id(),
            now_ns=time.monotonic_ns(),
            up_ns=uptime_ns(),
            wall_s=time.time(),
            python=tuple(sys.version_info[:3]),
            uid=os.geteuid(),
            protocol=messages.PROTOCOL,
        )
        self._say(greeting)

    def run(self) -> None:
        """Answer questions and tell news until stdin ends or somebody else listens here."""
        libc()  # every supervisor needs it, and inherits it
        gc.collect()
        gc.freeze()  # a supervisor that collected garbage would copy all that it inherits
        left, swept_s = b"", 0.0
        while True:
            wait_s = SWEEP_S if self.reports.again or self.switches.under_way else IDLE_S
            self.supervisors.dismiss()
            wait_s = self.supervisors.patience_s(wait_s)
            ready = [file for file, _ in self.poll.poll(1000 * wait_s)]
            reap_children()
            self.unanswered.look()
            if self.root and (get(f"{self.root}/listener") or {}).get("nonce") != self.nonce:
                return
            if self.reports.again and time.monotonic() >= swept_s + SWEEP_S:
                swept_s = time.monotonic()
                self._tell(sorted(self.reports.again))
            for file in ready:
                if file in self.supervisors:
                    self._hear(file)
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
            for number, found in self.switches.over():
                self._reply(number, found)

    def _answer(self, said: dict[str, Any]) -> None:
        number = said.get("id")
        try:
            do = said["do"]
            found = _ANSWERS[do](self, messages.QUESTIONS[do].decoded(said), number)
        except (OSError, KeyError, ValueError) as error:
            found = messages.Failed(error=f"{type(error).__name__}: {error}")
        if found is not None:
            self._reply(number, found)

    def _reply(self, number: object, found: messages.Answer) -> None:
        found.now_ns, found.up_ns = time.monotonic_ns(), uptime_ns()
        self._say({"id": number, **found})

    def _say(self, line: Mapping[str, object]) -> None:
        left = json.dumps(line).encode() + b"\n"
        while left:
            left = left[os.write(1, left) :]

    def claim(self, question: messages.Claim, _number: object) -> messages.Answer:
        """Take the node for one term of one scheduler, unless it is another's."""
        self.cluster = question.cluster
        if self.cluster:
            refusal, self.session = taken(self.base, question)
            if refusal is not None:
                return refusal
        self.root = f"{self.base}/clusters/{self.cluster}" if self.cluster else self.base
        self.term = raise_term(self.root, question.term)
        if self.term != question.term:
            cause = f"term {question.term} was replaced by {self.term}"
            return messages.ClaimRefused(refused="replaced", cause=cause)
        self.enforcement = Enforcement(
            self.root, self.cluster, question.cgroup, is_limited=question.is_limited
        )
        self.notices = open_notices(self.root)
        self.poll.register(self.notices, select.POLLIN)
        self.reports.begin(self.root)
        self.enforcement.tidy()
        put(f"{self.root}/listener", {"nonce": self.nonce})
        # Last: who is told of an error knows that there was no sign.
        write_beat(f"{self.root}/heartbeat", question.asked_ns)
        return messages.Claimed(root=self.root, term=self.term, shares=self.enforcement.words)

    def beat(self, question: messages.Beat, _number: object) -> messages.Answer:
        """Show a sign of the instant at which it was asked for, however late it comes."""
        write_beat(f"{self.root}/heartbeat", question.asked_ns)
        return messages.Beaten()

    def look(self, question: messages.Look, _number: object) -> messages.Answer:
        """Beat; return what has changed of attempts since it was told, or is asked anew.

        Of each that is watched the question says up to which note its journal was read, and up to
        which what was noted is durable. With `is_all`, no others are watched, and what is told once
        only is told: samples, and readings, also of GPUs that nobody has: they may be lost.
        """
        write_beat(f"{self.root}/heartbeat", question.asked_ns)
        for job, attempt in question.anew:
            self.reports.of(job, attempt).told = None
        keys = []
        for job, attempt, read, durable in question.watched:
            known = self.reports.of(job, attempt)
            known.read = read
            known.acknowledge(durable, self.term)
            keys.append((job, attempt))
        if not question.is_all:
            return messages.Looked(changed=tuple(self.reports.news(keys)), samples=(), gpus=None)
        self.reports.forget_all_but(keys)
        changed = tuple(self.reports.news(keys))
        gpus = self.readings.poll()
        return messages.Looked(
            changed=changed,
            samples=tuple(self.reports.samples(keys)),
            gpus=None if gpus is None else tuple(gpus),
        )

    def start(self, question: messages.Start, number: object) -> messages.Answer | None:
        """Start an attempt, unless the question has been under way for too long.

        None: its supervisor is yet to tell what came of it.
        """
        order = question.order
        if uptime_ns() > question.before_ns:
            return messages.StartAnswer(answer="late", cause="the order came too late")
        order = self._held().placed(at_home(order), self.reports.ports)
        self._open_checkpoints(order)
        if self.cluster:
            self._check_way(order)
        is_new = self.reports.is_new(order.job, order.attempt)
        found = self.supervisors.begin(self.root, order, is_new=is_new)
        if isinstance(found, messages.StartAnswer):
            return found.replaced(known=self.reports.known(order.job, order.attempt))
        self.starting[found] = number
        self.supervised[found] = order.job, order.attempt
        return None

    def _hear(self, file: int) -> None:
        """Answer what a supervisor tells of its start, and tell of its end."""
        found = self.supervisors.hear(file)
        if found is not None and file in self.starting:
            known = self.reports.known(*self.supervised[file])
            self._reply(self.starting.pop(file), found.replaced(known=known))
        if found is None or file not in self.supervisors:
            key = self.supervised.pop(file, None)
            if key is not None and not self.reports.is_told_ended(key):
                self._tell([key])

    def fence(self, question: messages.Fence, _number: object) -> messages.Answer:
        """Let no attempt up to this one start, end those that have, tell of this."""
        job, last = question.job, question.attempt
        raise_fence(self.root, job, last)
        known = []
        for attempt in [number for number in known_of(self.root, job) if number <= last]:
            folder = folder_of(self.root, job, attempt)
            if is_held(f"{folder}/lock"):
                self.unanswered.send(folder, messages.Command(do="fence", term=self.term))
            if attempt == last:  # a job may have had thousands
                known.append(self.reports.known(job, attempt))
        return messages.Fenced(fenced=tuple(known))

    def set_aside(self, question: messages.SetAside, _number: object) -> messages.Answer:
        """End an attempt, unread; say whether it is over. A stray raises no fence."""
        job, attempt = question.job, question.attempt
        if not question.is_stray:
            raise_fence(self.root, job, attempt)
        return messages.SetAsideAnswer(is_over=end_alone(self.root, job, attempt, self.term))

    def send(self, question: messages.Send, _number: object) -> messages.Answer:
        """Hand an order to a supervisor."""
        folder = folder_of(self.root, question.job, question.attempt)
        order = question.order.replaced(term=self.term)
        return messages.SendAnswer(taken=self.unanswered.send(folder, order))

    def switch(self, question: messages.Switch, number: object) -> None:
        """Have some attempts stand still, then others go on; answered after that."""
        self.switches.begin(self.root, self.term, question, number)

    def reshape(self, question: messages.Reshape, _number: object) -> messages.Answer:
        """Hold an attempt that runs to other shares; return what it has now."""
        key = question.job, question.attempt
        return self._held().change(key, question.shares, self.reports.ports)

    def inventory(self, question: messages.Inventory, _number: object) -> messages.Answer:
        """Return the newest attempts of one job, or some and all that run, or all."""
        job, wanted = question.job, question.wanted
        if job is not None:
            numbers = numbers_in(f"{self.root}/jobs/{job}")[-TOLD_OF_JOB:]
            found = [probe(folder_of(self.root, job, number)) for number in numbers]
        else:
            found = inventory(self.root) if wanted is None else running(self.root, wanted)
        return messages.InventoryAnswer(attempts=tuple(found))

    def read(self, question: messages.Read, _number: object) -> messages.Answer:
        """Return a piece of what a rank printed, and how much there is."""
        if not OUTPUT.fullmatch(question.name):
            raise ValueError(f"no output is named {question.name!r}")
        path = f"{folder_of(self.root, question.job, question.attempt)}/{question.name}"
        data, size = piece_of(path, question.offset, min(question.bytes, messages.READ_BYTES_MAX))
        return messages.ReadAnswer(data=data.decode("latin-1"), size=size)

    def port(self, question: messages.Port, _number: object) -> messages.Answer:
        """Return the first port of some that is free here; None if none is.

        That nobody listens on it yet means little: ranks import for a while before they do. So
        those that attempts were given are taken as long as these run, whoever started them.
        """
        taken = set(self.reports.ports.values())
        ports = (port for port in question.ports if port not in taken)
        return messages.PortAnswer(port=next((port for port in ports if is_free(port)), None))

    def _held(self) -> Enforcement:
        """Return what holds attempts to their shares; raise ValueError before the claim."""
        if self.enforcement is None:
            raise ValueError("no scheduler has claimed this node yet")
        return self.enforcement

    def _open_checkpoints(self, order: messages.Order) -> None:
        """Make the folder of a job's checkpoints, unless it is there."""
        folder, user = order.checkpoints, order.user
        if not folder.startswith(f"{self.root}/"):
            open_shared_checkpoints(folder, user)
            return
        own_folder(os.path.dirname(folder))
        open_checkpoints(folder, user)

    def _check_way(self, order: messages.Order) -> None:
        """Refuse an order whose user cannot get to what lies here."""
        place, user = f"{self.root}/jobs", order.user
        found = (
            {} if user is None else as_user(user, lambda: {"mode": os.stat(f"{place}/.").st_mode})
        )
        if "error" not in found:
            return
        raise ValueError(
            f"user {order.user_name} cannot pass through {place} ({found['error']}): "
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
            number = messages.number_of(attempt)
            if number is not None and checked(job, messages.a_job) is not None:
                attempts.append((job, number))
        self._tell(attempts)


_ANSWERS: Mapping[str, Callable[..., messages.Answer | None]] = {
    messages.Claim.DO: Session.claim,
    messages.Beat.DO: Session.beat,
    messages.Look.DO: Session.look,
    messages.Start.DO: Session.start,
    messages.Fence.DO: Session.fence,
    messages.SetAside.DO: Session.set_aside,
    messages.Send.DO: Session.send,
    messages.Reshape.DO: Session.reshape,
    messages.Switch.DO: Session.switch,
    messages.Inventory.DO: Session.inventory,
    messages.Read.DO: Session.read,
    messages.Port.DO: Session.port,
}


# News of attempts.

NEVER = (-1, -1, -1)
NEWS_BYTES = 1 << 20


class Watched:
    """What is known of an attempt, and what of it was told already.

    A look costs two `stat` where nothing has changed. The end of a supervisor is awaited by its
    pidfd, where the kernel has them, so that quiet jobs cost nothing and one that is killed is
    missed at once.

    `end` is a file that gets readable when its supervisor ends, or -1.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.told: tuple[str, bool] | None = None
        self.read = 0
        self.end = -1
        self._acknowledged = 0
        self._sampled_ns = 0
        self._sample_stamp = 0
        self._seen = NEVER

    def may_have_news(self) -> bool:
        """Say whether a look could show anything new."""
        return self.end < 0 or self.has_changed()

    def has_changed(self) -> bool:
        """Say whether its records have changed since it was told."""
        return self.told is None or _stamp(self.folder) != self._seen

    def look(self) -> tuple[messages.Known, bool]:
        """Return its state, and whether that is settled.

        It is not while what a lost supervisor has left is being swept.
        """
        self.note_seen()  # first: what changes from here on is news
        known, is_settled = probe(self.folder), True
        if known.state in NO_END and sweep(self.folder):
            known.state, is_settled = "running", False
        started = known.started
        if known.state == "running" and started is not None and self.end < 0:
            self.end = _opened_end(self.folder, started)
        self.told = (known.state, started is None)
        return known, is_settled

    def note_seen(self) -> None:
        """Note that its records were seen as they are."""
        self._seen = _stamp(self.folder)

    def journal(self, *, with_notes: bool) -> messages.Notes:
        """Return a piece of what its journal says that was not read."""
        found = read_journal(self.folder, self.read) if with_notes else messages.Notes()
        if found.notes:
            self.read = found.notes[-1].n
        if not found.is_all:
            self._seen = NEVER
        return found

    def acknowledge(self, durable: int, term: int) -> None:
        """Let its supervisor drop the notes that are in the log, once it takes the order."""
        order = messages.Command(do="acknowledge", upto=durable, term=term)
        if durable > self._acknowledged and self.send(order):
            self._acknowledged = durable

    def send(self, order: messages.Command) -> bool:
        """Hand an order to its supervisor; False if nobody takes it."""
        return send(self.folder, order)

    def sample(self) -> messages.Sample | None:
        """Return its newest sample; None if that was told, or there is none."""
        try:
            stamp = os.stat(f"{self.folder}/sample").st_mtime_ns
        except OSError:
            return None
        if stamp == self._sample_stamp:
            return None
        _, job, number = attempt_of(self.folder)
        said = {**(get(f"{self.folder}/sample") or {}), "job": job, "attempt": number}
        self._sample_stamp, sample = stamp, checked(said, messages.Sample.decoded)
        if sample is None or sample.at_ns <= self._sampled_ns:
            return None
        self._sampled_ns = sample.at_ns
        return sample


def _opened_end(folder: str, started: messages.Started) -> int:
    """Return what gets readable when a supervisor ends; -1 where that cannot be had."""
    if not hasattr(os, "pidfd_open"):
        return -1
    try:
        end = os.pidfd_open(started.pid)
    except OSError:
        return -1
    # Only who holds the lock is the supervisor: its process id may be somebody else's by now.
    if is_held(f"{folder}/lock"):
        return end
    os.close(end)
    return -1


def _stamp(folder: str) -> tuple[int, int, int]:
    """Return what changes when a record appears in a folder, or the journal changes."""
    try:
        appeared = os.stat(folder).st_mtime_ns
    except OSError:
        return NEVER
    try:
        journal = os.stat(f"{folder}/journal")
    except OSError:
        return appeared, 0, 0
    return appeared, journal.st_size, journal.st_mtime_ns


class Reports:
    """The attempts of which a session tells, by job and number.

    `again` are those to be looked at soon, since what they left is still being swept; `ends` says
    by file whose supervisor's end it tells; `ports` are those that running attempts were given.
    """

    def __init__(self, poll: select.poll, make: Callable[[str], Watched] = Watched) -> None:
        self.again: set[messages.Key] = set()
        self.ends: dict[int, messages.Key] = {}
        self.ports: dict[messages.Key, int | None] = {}
        self._root = ""
        self._poll = poll
        self._make = make
        self._attempts: dict[messages.Key, Watched] = {}
        self._begun: set[messages.Key] = set()

    def begin(self, root: str) -> None:
        """Tell of attempts below a root from now on."""
        self._root = root
        for each in running(root, []):
            self._note_port(each)
            self._begun.add((each.job, each.attempt))

    def is_new(self, job: str, attempt: int) -> bool:
        """Say whether an attempt that is to start has never been seen here before.

        What ran when this session began was seen, and all that starts later starts through it.
        """
        key = job, attempt
        if key in self._begun:
            return False
        self._begun.add(key)
        return True

    def of(self, job: str, attempt: int) -> Watched:
        """Return what is known of an attempt."""
        key = job, attempt
        if key not in self._attempts:
            self._attempts[key] = self._make(folder_of(self._root, job, attempt))
        return self._attempts[key]

    def forget_all_but(self, kept: Collection[messages.Key]) -> None:
        """Tell nothing more of attempts but for some."""
        for gone in sorted(self._attempts.keys() - set(kept)):
            self._end_wait(self._attempts.pop(gone).end)
            self.again.discard(gone)
            self._begun.discard(gone)  # if it is over, the fence of its job tells

    def is_told_ended(self, key: messages.Key) -> bool:
        """Say whether the end of an attempt was told, or nobody wants to know any more."""
        watched = self._attempts.get(key)
        return watched is None or (watched.told is not None and watched.told[0] == "ended")

    def ended(self, file: int) -> messages.Key:
        """Note that a supervisor is gone; return whose."""
        key = self.ends[file]
        self._end_wait(file)
        self._attempts[key].end = -1
        return key

    def news(self, attempts: Iterable[messages.Key]) -> list[messages.Known]:
        """Return what has changed, where a glance says that something may have."""
        return self.changed([key for key in attempts if self.of(*key).may_have_news()])

    def changed(self, attempts: Iterable[messages.Key]) -> list[messages.Known]:
        """Return what has changed of attempts since it was told."""
        found, size = [], 0
        for job, attempt in attempts:
            before = self.of(job, attempt).told
            known = self.known(job, attempt, with_notes=size < NEWS_BYTES)
            if known.notes or before != self.of(job, attempt).told:
                found.append(known)
                size += len(json.dumps(known.notes))
        return found

    def samples(self, attempts: Iterable[messages.Key]) -> list[messages.Sample]:
        """Return the samples of attempts that have not been told yet."""
        found = [self.of(*key).sample() for key in attempts]
        return [sample for sample in found if sample is not None]

    def known(self, job: str, attempt: int, *, with_notes: bool = True) -> messages.Known:
        """Return all that is known of an attempt, and note that it is told.

        Of its journal that is what was not read; more than a piece is told a piece at a time.
        """
        watched, key = self.of(job, attempt), (job, attempt)
        known, is_settled = watched.look()
        if is_settled:
            self.again.discard(key)
        else:
            self.again.add(key)
        if known.state == "ended":  # its supervisor may have gone on to another attempt
            self._end_wait(watched.end)
            watched.end = -1
        elif watched.end >= 0 and watched.end not in self.ends:
            self.ends[watched.end] = key
            self._poll.register(watched.end, select.POLLIN)
        self._note_port(known)
        return known.replaced(**watched.journal(with_notes=with_notes))

    def _end_wait(self, file: int) -> None:
        """Wait no more for the end of a supervisor."""
        if self.ends.pop(file, None) is not None:
            self._poll.unregister(file)
            os.close(file)

    def _note_port(self, known: messages.Known) -> None:
        if known.started is None or known.state in ("ended", "lost"):
            self.ports.pop((known.job, known.attempt), None)
        else:
            self.ports[(known.job, known.attempt)] = known.started.port


# A switch of turns, and attempts that do not read an order to end.

SWITCH_S = 3.0
"""For so long who is to stand still may take, and who is to go on."""
READ_MOST_S, LOOKS, LOOK_S = 15.0, 3, 1.0
ENDING = ("terminate", "fence")


class Switches:
    """The switches that are under way on a node.

    Some attempts stand still, and then, not before, others go on. One question does both, so that a
    scheduler which gives GPUs by turns waits for one answer, and the processes of both never run at
    once. Supervisors do it, as they do when told to stop or continue; whether it is done the kernel
    says, by the states of processes. What is gone holds nobody up. Asked again, a switch changes
    nothing.
    """

    def __init__(self) -> None:
        self.under_way: list[tuple[object, _Switch]] = []  # and the ids of their questions

    def begin(self, root: str, term: int, question: messages.Switch, number: object) -> None:
        """Begin a switch of attempts below a root."""
        self.under_way.append((number, _Switch(root, term, question)))

    def over(self) -> Iterator[tuple[object, messages.Answer]]:
        """Do what is due, and return the answers to switches that are over by now."""
        for each in list(self.under_way):
            number, switch = each
            found = switch.look(time.monotonic())
            if found is not None:
                self.under_way.remove(each)
                yield number, found


class _Switch:
    """One of them."""

    def __init__(self, root: str, term: int, question: messages.Switch) -> None:
        self._root, self._term = root, term
        self._stops, self._continues = question.stops, question.continues
        self._is_continued, self._due_s = False, time.monotonic() + SWITCH_S
        self._send("stop", self._stops)

    def look(self, now_s: float) -> messages.Answer | None:
        """Do what is due; return how all stand once that is over, None before.

        Nobody goes on while somebody runs that should not.
        """
        parents = processes()
        still = {key: self._stance(key, parents) for key in self._stops}
        is_clear = not {"running", "starting"}.intersection(still.values())
        if is_clear and not self._is_continued:
            self._is_continued, self._due_s = True, now_s + SWITCH_S
            self._send("continue", self._continues)
        going = {key: self._stance(key, parents) for key in self._continues}
        is_over = self._is_continued and "stopped" not in going.values()
        if not is_over and now_s < self._due_s:
            return None
        stances = [*still.items(), *going.items()]
        stands = [
            messages.Stand(job=job, attempt=number, stance=one) for (job, number), one in stances
        ]
        return messages.SwitchAnswer(stands=tuple(stands))

    def _send(self, do: str, keys: Iterable[messages.Key]) -> None:
        for key in keys:
            send(folder_of(self._root, *key), messages.Command(do=do, term=self._term))

    def _stance(self, key: messages.Key, parents: Mapping[int, int]) -> messages.Stance:
        """Return whether an attempt stands still, or its state if it does not run."""
        state = probe(folder_of(self._root, *key)).state
        if state != "running":
            return state
        pids = pids_of(self._root, key, parents)
        return "stopped" if pids and all(map(stands_still, pids)) else "running"


class Unanswered:
    """Who was told to end, and when it is looked whether that was read.

    A supervisor that was stopped or hangs reads nothing. Who has left such an order unread for
    `READ_MOST_S`, and does at three looks more, is killed: the kernel and the reaper end the
    processes of the attempt then, as with any supervisor that was killed. One that reads ends its
    job itself, by the deadlines of the order.
    """

    def __init__(self) -> None:
        self._due: dict[str, tuple[float, int]] = {}

    def send(self, folder: str, order: messages.Command) -> bool:
        """Hand an order to a supervisor; False if nobody takes it."""
        if order.do in ENDING:
            self._due.setdefault(folder, (time.monotonic() + READ_MOST_S, 0))
        return send(folder, order)

    def look(self) -> None:
        """Kill the supervisors that have read nothing for too long."""
        now_s = time.monotonic()
        for folder, (due_s, looks) in list(self._due.items()):
            if now_s < due_s:
                continue
            if not is_held(f"{folder}/lock") or not _is_unread(f"{folder}/orders"):
                del self._due[folder]
            elif looks < LOOKS:
                self._due[folder] = (now_s + LOOK_S, looks + 1)
            else:
                del self._due[folder]
                _kill_supervisor(folder)


def _is_unread(path: str) -> bool:
    """Say whether a FIFO holds anything; one that is gone its reader would make anew."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        size = array.array("i", [0])
        if stat.S_ISFIFO(os.fstat(file).st_mode):
            fcntl.ioctl(file, termios.FIONREAD, size)
            return size[0] > 0
        return True
    finally:
        os.close(file)


def _kill_supervisor(folder: str) -> None:
    root, job, number = attempt_of(folder)
    alive = alive_below(root).get((job, number))
    for pid in alive.supervisors if alive is not None else ():
        kill(pid, signal.SIGKILL)
