"""The supervisor: one attempt of a job on one machine, run by a process that outlives the daemon.

`begin` starts it, and `Supervision` is what it does then, until no process of the attempt is left.

A lock excludes starting and fencing an attempt at once, so a fenced attempt was seen or will never
start. The supervisor adopts orphans (a subreaper); after its death the kernel kills the ranks, and
its reaper the rest (ranks.py). If that was killed too, `sweep` later kills what has the attempt's
mark in its environment (attempts.py) or is in its control group. Only a process that clears its
environment, without groups, outlives both; `ranks.lock` shows it while it keeps its files open.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from shunter.backends.node.attempts import alive_below, seal
from shunter.backends.node.cgroups import close_group, held_to, kills, open_group
from shunter.backends.node.endings import Ending
from shunter.backends.node.journal import Channel, Journal, commands_in
from shunter.backends.node.launchers import OWN_END_S, Asking
from shunter.backends.node.messages import Order, RankStarted, StartAnswer, Started, Status
from shunter.backends.node.output import STREAMS, Times, Writes, bound
from shunter.backends.node.ownership import Heartbeat
from shunter.backends.node.ranks import (
    EXIT_SUSPENDED,
    Gate,
    ReaperGroup,
    adopt_orphans,
    exit_code,
    family,
    gang_code,
    go_on_below_reaper,
    kill_remaining,
    make_outputs,
    remaining,
    spawn,
    stop_all,
)
from shunter.backends.node.records import (
    LINE_BYTES_MAX,
    boot_id,
    count_in,
    create_private,
    failpoint,
    fifo,
    folder_of,
    get,
    hold,
    is_at,
    kill,
    make_folder,
    own_folder,
    put,
    signal_pipe,
    tell,
)
from shunter.backends.node.sampling import Sampling
from shunter.backends.node.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from shunter.backends.node.messages import Command, JobMessage, User


POLL_S, KILL_POLL_S = 1.0, 0.02
TERMINATED, SAME_SIGNAL_S = 128 + signal.SIGTERM, 0.3
NOTED_MESSAGES = ("acknowledged", "saved", "failed", "warned")
STRONGER = ("cooperative", "signal", "restart")
STOP_S = 0.2
CHANNELS = ("orders", "channel")
LOCK_TRIES = 20
RESERVE_BYTES = 4096  # and as many as an exit code needs for each rank
EXIT_CODE_BYTES = 8
SHORT_S = 60.0  # a supervisor that had a longer attempt has no other: its memory may have grown


def answer_start(root: str) -> dict[str, object]:
    """Start the attempt whose order stdin holds."""
    own_folder(f"{root}/jobs")
    found = start(root, Order.decoded(json.load(sys.stdin)))
    return {"answer": found.answer, **({"cause": found.cause} if found.cause else {})}


def start(root: str, order: Order, *, is_new: bool = False) -> StartAnswer:
    """Start the supervisor of an attempt, once; return what came of it."""
    found = begin(root, order, is_new=is_new)
    return found if isinstance(found, StartAnswer) else answer_of(found)


def begin(root: str, order: Order, *, is_new: bool = False) -> StartAnswer | int:
    """Begin to start the supervisor of an attempt, once.

    Args:
        root: the folder of the cluster.
        order: what to run.
        is_new: it is known that the attempt has never run, so that no process needs to be looked
            for whose folder was removed: that takes a look at every process of the machine.

    Returns:
        what came of it, or a file to read that from once the supervisor tells (`answer_of`).
    """
    try:
        return _begin(root, order, is_new=is_new)
    except OSError as error:  # a full disk, say: nothing was begun
        return failed(error)


def failed(error: OSError) -> StartAnswer:
    """Return that a start has come to nothing."""
    return StartAnswer(answer="failed", cause=f"its supervisor cannot work: {error}")


def answer_of(reader: int) -> StartAnswer:
    """Return what a supervisor tells of its start, and close the file."""
    try:
        said = os.read(reader, LINE_BYTES_MAX)
    finally:
        os.close(reader)
    return answer_in(said)


def answer_in(said: bytes) -> StartAnswer:
    """Return what a supervisor said of its start; nothing: it was gone before."""
    return StartAnswer.decoded(json.loads(said)) if said else StartAnswer(answer="unknown")


def _begin(root: str, order: Order, *, is_new: bool) -> StartAnswer | int:
    lock = lock_attempt(root, order, is_new=is_new)
    if isinstance(lock, StartAnswer):
        return lock
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        try:
            group = become_supervisor(writer, is_bound=order.is_bound)
            if group is not None:
                supervise(root, order, lock, Supervisor(writer, group))
        finally:
            os._exit(0)
    os.close(writer)
    os.close(lock)  # only this copy: the supervisor holds the lock on
    return reader


def lock_attempt(root: str, order: Order, *, is_new: bool) -> StartAnswer | int:
    """Return an open file with the lock of an attempt; if it has begun, that.

    Raises:
        OSError: its folder cannot be made.
    """
    folder = folder_of(root, order.job, order.attempt)
    for each in (root, f"{root}/jobs", f"{root}/jobs/{order.job}", folder):
        own_folder(each)
    lock = None
    for _ in range(LOCK_TRIES):  # who only probes holds it for microseconds
        lock = hold(f"{folder}/lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is not None:
            break
        time.sleep(0.002)
    if lock is None:
        return StartAnswer(answer="known")
    if get(f"{folder}/started") is not None or (not is_new and is_alive(root, order)):
        os.close(lock)  # or its supervisor, which is gone, would seem to live as long as we do
        return StartAnswer(answer="known")
    failpoint("attempt locked")
    return lock


def is_alive(root: str, order: Order) -> bool:
    """Say whether an attempt runs whose folder was removed."""
    alive = alive_below(root).get((order.job, order.attempt))
    return alive is not None and bool(alive.marked or len(alive.supervisors))


class Supervisor(NamedTuple):
    """What a supervisor has for all its attempts: an agent and a reaper."""

    answers: int
    group: ReaperGroup


def become_supervisor(answers: int, *, is_bound: bool) -> ReaperGroup | None:
    """Leave the daemon's world, below a reaper.

    None: there is no room for that, and the daemon was told.
    """
    os.setsid()
    os.chdir("/")
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):  # or the caller's pipe would stay open as long as the job runs
        os.dup2(null, number)
    for ignored in (signal.SIGHUP, signal.SIGINT):
        signal.signal(ignored, signal.SIG_IGN)
    try:
        group = go_on_below_reaper(is_bound=is_bound)
        adopt_orphans()
    except OSError as error:
        _reply(answers, failed(error))
        return None
    return group


def supervise(root: str, order: Order, held_lock: int, own: Supervisor) -> bool:
    """Pass the fences, start the ranks, and stay until the attempt is over.

    Returns:
        whether this process may go on to another attempt, once its files are closed.
    """
    folder, begun_s = folder_of(root, order.job, order.attempt), time.monotonic()
    try:
        fences = [hold(f"{root}/term.lock", fcntl.LOCK_SH)]
        fences.append(hold(f"{root}/jobs/{order.job}/fence.lock", fcntl.LOCK_EX))
        cause = _refusal(root, order)
        if cause:
            _reply(own.answers, StartAnswer(answer="refused", cause=cause))
            return True
        failpoint("attempt let in")
        user = order.user
        order.seal = seal(root, folder, user.uid if user else os.geteuid())
        own.group.put(order.cgroup)
        supervision, lock = _prepare(root, folder, order, held_lock)
    except OSError as error:  # a full disk, say: nothing was begun
        _reply(own.answers, failed(error))
        return False
    for number in range(len(order.ranks)):
        supervision.living[spawn(folder, order, number, lock, supervision.gate)] = number
    failpoint("attempt spawned")
    os.close(lock)
    _let_none_follow(root, order)
    for held in fences:
        if held is not None:
            os.close(held)
    _reply(own.answers, StartAnswer(answer="started"))
    failpoint("attempt replied")
    supervision.announce()
    supervision.run()
    own.group.put(None)
    return is_plain(order) and time.monotonic() - begun_s < SHORT_S


def is_plain(order: Order) -> bool:
    """Say whether a supervisor may have other attempts before and after this one."""
    return not order.is_bound and order.slicing is None


def _refusal(root: str, order: Order) -> str:
    """Return which fence stands before an order; both fences are held meanwhile."""
    term = count_in(f"{root}/term", "term")
    fence = count_in(f"{root}/jobs/{order.job}/fence", "attempt")
    if order.term < term:
        return f"term {order.term} has been replaced by {term}"
    if order.attempt <= fence:
        return f"attempt {order.attempt} has begun or is fenced, as is all up to {fence}"
    return ""


def _prepare(root: str, folder: str, order: Order, held_lock: int) -> tuple[Supervision, int]:
    """Make all that the ranks need, and last the record that says they started."""
    _open_checkpoints(f"{root}/jobs/{order.job}/checkpoints", order.user)
    group = order.cgroup
    if group:
        shares = order.shares
        open_group(group, shares.cpus_milli if shares else 0, order.memory_mb)
    make_outputs(folder, order)
    _reserve(folder, RESERVE_BYTES + EXIT_CODE_BYTES * len(order.ranks))
    supervision = Supervision(root, folder, order)
    os.close(os.open(f"{folder}/ranks.lock", os.O_RDWR | os.O_CREAT, 0o600))
    user = order.user
    if user:  # whose ranks they are, also once the folder has been removed
        os.chown(f"{folder}/ranks.lock", user.uid, -1)
    lock = os.open(f"{folder}/ranks.lock", os.O_PATH)  # to be held open, and for nothing else
    started = Started(
        job=order.job,
        attempt=order.attempt,
        term=order.term,
        placement=order.placement,
        # Nothing of their commands and environments: values there are secrets.
        ranks=tuple([RankStarted(cpus=rank.cpus, pinned=rank.pinned) for rank in order.ranks]),
        port=order.port,
        gpus=order.gpus,
        cgroup=group,
        pid=os.getpid(),
        boot=boot_id(),
        started_ns=time.monotonic_ns(),
    )
    put(f"{folder}/started", started)
    supervision.traces = AttemptFiles(folder, held_lock, started)
    failpoint("attempt started")
    return supervision, lock


def _open_checkpoints(path: str, user: User | None) -> None:
    """Make the folder that all attempts of a job share, and give it to its user."""
    os.makedirs(path, 0o700, exist_ok=True)
    if user is not None:
        os.chown(path, user.uid, user.gid)


def _reserve(folder: str, count: int) -> None:
    """Keep room for the status of an attempt, in bytes, whatever its job writes."""
    with create_private(f"{folder}/reserve") as file:
        file.write(" " * count)
        file.flush()
        os.fsync(file.fileno())


def _let_none_follow(root: str, order: Order) -> None:
    """Fence what has begun: without its folder nothing else would tell.

    Both fences are held. A disk that is full now leaves the folder as the only witness.
    """
    with suppress(OSError):
        put(f"{root}/jobs/{order.job}/fence", {"attempt": order.attempt})


def _reply(file: int, answer: StartAnswer) -> None:
    try:
        os.write(file, json.dumps(answer).encode())
    except OSError:
        return  # who asked has died meanwhile: the attempt runs on without it


class Supervision:
    """One attempt while it runs: its ranks, what it was told, and what is done next."""

    def __init__(self, root: str, folder: str, order: Order) -> None:
        self.root, self.folder, self.order = root, folder, order
        self.living: dict[int, int] = {}
        self.codes: list[int | None] = [None] * len(order.ranks)
        self.killed: list[int] = []  # the codes of those that a signal killed
        self.stages: list[tuple[str, float]] = []
        self.stage, self.asked, self.due_s = "", "", 0.0
        self.why, self.failed, self.saved, self.is_terminated = "", 0, False, False
        limits = order.heartbeat
        self.heartbeat = None
        if limits:
            is_remote = limits.is_remote
            self.heartbeat = Heartbeat(limits.path, limits.deadline_s, is_remote=is_remote)
        self.wake = signal_pipe()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._leave())
        user = order.user
        self.traces: AttemptFiles | None = None
        self.writer = None if user is None else user.uid
        self.orders = fifo(f"{folder}/orders")
        self.channel = Channel(fifo(f"{folder}/channel", self.writer))
        self.journal = Journal(folder)
        self.dropped, self.trains = 0, False
        self.ending = Ending(order.suspend.signal)
        self.saved_ns: int | None = None
        self.sampling = Sampling(folder, len(order.ranks), order.sample_s)
        self.asking = Asking()
        self.stopping = Stopping(self._left, self.asking.without_launchers, self.note)
        self.turns = Turns(root, order, lambda: family(order.cgroup), self.note)
        ranks = range(len(order.ranks))
        self.gate = Gate(len(ranks), is_open=not order.awaits_others)
        self.times = Times(folder, len(ranks))
        self.writes = Writes(f"{folder}/{name}.{rank}" for rank in ranks for name in STREAMS)
        self.looked_s = time.monotonic()

    def run(self) -> None:
        """Watch over the ranks until no process is left, and say how they ended."""
        self._check_heartbeat()  # this may have been stopped since the start was ordered
        self.times.look(time.time())
        self.turns.join()
        while self.living or self._is_awaited():
            inputs, patience_s = [self.wake, self.orders, self.channel.fifo], self._patience_s()
            quiet_s = self.writes.wait_s(time.monotonic())
            if quiet_s == 0 and self.writes.fd is not None:
                inputs.append(self.writes.fd)
            elif quiet_s is not None:
                patience_s = min(patience_s, quiet_s)
            ready, _, _ = select.select(inputs, [], [], patience_s)
            if self.writes.fd in ready:
                self.writes.take(time.monotonic())
                self.times.look(time.time())
            if self.wake in ready:
                os.read(self.wake, 512)
            self._reap()
            if time.monotonic() - self.looked_s >= self._look_s():
                self._look()  # first: who slept past its deadline obeys nobody any more
            if self.orders in ready:
                for order in commands_in(self.orders):
                    self._obey(order)
            if self.channel.fifo in ready:
                self._receive()
            self.stopping.look(time.monotonic())
            self.turns.look()
            if self.stages and time.monotonic() >= self.due_s:
                self._escalate()
        self.turns.end()
        self._await_own_end()
        failpoint("attempt over")
        self._receive(last=True)  # its last words, said after we listened last
        stragglers = kill_remaining(self.order.cgroup, self._reap)
        self._bound_output(last=True)
        self._write_status(stragglers)

    def suspend(self, mode: str) -> None:
        """Ask the job to leave, in a mode, and from its deadline on in stronger ones."""
        if self.why or mode == "never":
            return
        limits = self.order.suspend
        # One that is only stopped would keep its GPUs, and one held at its gate answers nothing.
        first = STRONGER.index(mode if mode in STRONGER and self.gate.is_open else "restart")
        self.asked = mode
        limits_s = (limits.cooperative_s, limits.signal_s, limits.restart_s)
        stages = [(STRONGER[each], float(limits_s[each])) for each in range(first, len(STRONGER))]
        self._begin("suspend", [*stages, ("kill", KILL_POLL_S)])

    def terminate(self, why: str, grace_s: float | None) -> None:
        """End the job: SIGTERM and, after its grace, SIGKILL to all its processes."""
        if self.why in ("terminate", "fence", "heartbeat") and grace_s is not None:
            return
        gentle = [] if grace_s is None else [("terminate", grace_s)]
        self._begin(why, [*gentle, ("kill", KILL_POLL_S)])

    def note(self, what: str, **fields: object) -> None:
        """Add a note to the journal and tell the daemon, if there is one."""
        self.journal.add(what, **fields)
        failpoint(f"attempt noted {what}")
        self.announce()

    def announce(self) -> None:
        """Tell the daemon that there is something to read here."""
        line = f"{self.order.job}/{self.order.attempt}\n".encode()
        tell(f"{self.root}/notices", line)

    def _leave(self) -> None:
        """Suspend the job; Slurm sends its processes the same SIGTERM."""
        self.is_terminated = True
        if self.order.is_bound:
            # Its batch process may run only once we have ended, and an end without it is told as
            # one that Slurm has nothing to do with.
            note_leaving(self.folder, "SIGTERM")
        self.suspend(self.order.suspend.mode)

    def _await_own_end(self) -> None:
        """Wait for a SIGTERM that has reached the ranks before it reaches us."""
        ended = self.failed == TERMINATED or (TERMINATED in self.codes and not self.why)
        # Some end with 0 at the SIGTERM of Slurm, which signals one process after the other.
        is_well = not self.why and not any(self.codes) and not self.ending.has_said_so
        ended = ended or (is_well and "SLURM_JOB_ID" in os.environ)
        until_s = time.monotonic() + SAME_SIGNAL_S
        while ended and not self.is_terminated and time.monotonic() < until_s:
            time.sleep(0.01)

    def _begin(self, why: str, stages: list[tuple[str, float]]) -> None:
        self.why, self.stages = why, stages
        self._escalate()
        self.stopping.go_on()  # who stands still hears nothing but SIGKILL
        self.turns.leave()

    def _escalate(self) -> None:
        """Enter the next stage; the last one is entered again until nobody is left."""
        before, (self.stage, limit_s) = self.stage, self.stages[0]
        if len(self.stages) > 1:
            self.stages.pop(0)
        self.due_s = time.monotonic() + limit_s
        if self.why == "suspend":
            if not before:  # the kill, entered again, asks for nothing new
                self.note("requested", mode=self.asked)
            if self.stage in STRONGER and self.stage != (before or self.asked):
                self.note("escalated", mode=self.stage)
        self._show_request()
        failpoint(f"attempt at stage {self.stage}")
        self.asking.forget()
        if not self._ask():
            self.due_s = time.monotonic() + min(limit_s, OWN_END_S)
        if self.stage == "kill":
            for pid in self._left():
                kill(pid, signal.SIGKILL)

    def _ask(self) -> bool:
        """Ask whoever this stage asks by a signal; False if nobody handles that.

        Launchers are spared while their ranks live (launchers.py).
        """
        if self.stage == "signal":
            is_heard = self.asking.signal(self.order.suspend.signal)
            self.ending.is_signalled |= is_heard
            return is_heard
        if self.stage in ("restart", "terminate"):
            self.asking.terminate(self.living)
        return True

    def _is_awaited(self) -> bool:
        """Say whether one handles the SIGTERM of which its launcher has died."""
        return self.stage in ("restart", "terminate") and self.asking.is_awaited()

    def _show_request(self) -> None:
        """Ask by the file that the job looks for; on a full disk, at a later look."""
        if self.why == "suspend" and not os.path.exists(f"{self.folder}/suspend"):
            with suppress(OSError), create_private(f"{self.folder}/suspend"):
                pass

    def _restore_traces(self) -> None:
        """Make anew what somebody has removed of our folder while the job runs."""
        if self.traces is None or self.traces.are_there() or not self.traces.restore():
            return
        with suppress(OSError):
            os.close(self.orders)
            self.orders = fifo(f"{self.folder}/orders")
            os.close(self.channel.fifo)
            self.channel.fifo = fifo(f"{self.folder}/channel", self.writer)
        self.journal.mend(anew=True)
        self.announce()

    def _patience_s(self) -> float:
        now_s = time.monotonic()
        patience_s = self.stopping.patience_s(now_s, self._look_s())
        patience_s = self.turns.patience_s(patience_s)
        return min(patience_s, max(0.0, self.due_s - now_s)) if self.stages else patience_s

    def _look_s(self) -> float:
        """Return how often to look at what tells nothing by itself."""
        limits = self.order.heartbeat
        return min(POLL_S, limits.deadline_s / 4) if limits else POLL_S

    def _look(self) -> None:
        self.looked_s = time.monotonic()
        self._check_heartbeat()
        self._restore_traces()
        self._show_request()
        if self.asking.is_below_launcher:  # which may have started its ranks again
            self._ask()
        self.journal.mend()
        self.sampling.look(self.looked_s)
        self._bound_output()

    def _bound_output(self, *, last: bool = False) -> None:
        self.times.look(time.time(), last)
        most = self.order.output_bytes_max
        for number in range(len(self.codes) if most else 0):
            for name in STREAMS:
                path = f"{self.folder}/{name}.{number}"
                dropped = bound(path, most)
                if dropped:
                    self.dropped += dropped
                    self.times.drop(path, dropped, most)

    def _reap(self) -> None:
        for pid, wait_status in iter(_waited, (0, 0)):
            rank = self.living.pop(pid, None)
            if rank is None:
                continue  # an adopted orphan
            code = self.codes[rank] = exit_code(wait_status)
            if os.WIFSIGNALED(wait_status):
                self.killed.append(code)
            if not self.living or self.why:
                continue
            if self._has_left(code):  # one rank left by itself: the gang leaves with it
                self.suspend("cooperative")
            elif code:
                self.failed = code  # what the others end with follows from it
                self.terminate("rank", float(self.order.grace_s))

    def _has_left(self, code: int) -> bool:
        """Say whether a rank left to go on later; in mode `never` only for Slurm."""
        may_leave = self.order.suspend.mode != "never" or self.is_terminated
        return code == EXIT_SUSPENDED and may_leave

    def _obey(self, order: Command) -> None:
        if order.do == "turns":  # of another supervisor: somebody comes or goes
            self.turns.note_change()
            return
        if (order.term or 0) < count_in(f"{self.root}/term", "term"):
            return  # from a scheduler that has been replaced
        do = order.do
        failpoint(f"attempt told to {do}")
        if do == "acknowledge":
            self.journal.acknowledge(order.upto or 0)
        elif do == "suspend":
            self.suspend(order.mode or self.order.suspend.mode)
        elif do == "terminate":
            self.terminate("terminate", float(self.order.grace_s))
        elif do == "fence":
            self.terminate("fence", None)
        elif do == "go":
            self.gate.open()
        elif do == "turn":
            self.turns.obey(order)
        elif do == "slice":
            self.turns.reslice(order)
        elif do == "stop" and not self.why and not self.turns.stop():
            self.stopping.stop(time.monotonic())
        elif do == "continue" and not self.why and not self.turns.go_on():
            self.stopping.go_on()

    def _receive(self, *, last: bool = False) -> None:
        """Take in what the job says of itself, and tell of what was not taken."""
        for said in self.channel.read():
            self.turns.receive(said)
            if said.what == "progress":
                self.sampling.take(said)
                self.ending.take_progress(said)
                if not self.trains and said.state == "training":
                    self.trains = True
                    self.note("training")
            elif said.what in NOTED_MESSAGES:
                self._note_said(said)
        if self.channel.is_to_be_told(last=last):
            self.note("refused", count=self.channel.dropped, cause=self.channel.cause)

    def _note_said(self, said: JobMessage) -> None:
        what, step = said.what, said.step
        text = self.channel.new_warning(said.text or "") if what == "warned" else ""
        if what == "warned" and not text:
            return
        if what == "saved":
            self.saved, self.saved_ns = self.why == "suspend", time.monotonic_ns()
        if self.why == "suspend" and not text:
            self.ending.take_answer(what)
        if self.journal.is_full:
            self.channel.drop("its scheduler has not read what was noted before")
        elif self.channel.may_note():
            if what == "acknowledged":
                self.note("acknowledged")
            elif what == "saved":
                path = said.checkpoint or ""
                self.note("saved", checkpoint=path, step=step, bytes=said.bytes)
            elif what == "warned":
                self.note("warned", text=text, step=step)
            else:
                self.note("failed", error=(said.error or "")[:500], step=step)
        if what == "failed" and self.why == "suspend" and self.stage == "cooperative":
            self._escalate()  # its deadline would bring nothing: it has gone on training

    def _check_heartbeat(self) -> None:
        """Kill the job when there was no sign of the daemon for too long."""
        if self.heartbeat is None or self.why == "heartbeat" or not self.living:
            return
        if self.heartbeat.is_over():
            self.terminate("heartbeat", None)

    def _left(self) -> list[int]:
        """Return all processes of the attempt, wherever they forked to."""
        return remaining(self.order.cgroup)

    def _write_status(self, stragglers: int) -> None:
        code = self.failed or gang_code([code or 0 for code in self.codes])
        # What a launcher makes of how its ranks ended, which were asked, is its own failure.
        hidden = self.asking.is_below_launcher and code != 0
        number = self.order.suspend.signal
        signalled = self.stage == "signal" and (code == 128 + number or hidden)
        stopped = self.why == "suspend" and (self.stage in ("restart", "kill") or signalled)
        # A launcher between us and what saved (torchrun) turns its 75 into a failure of its own.
        saved = self._has_left(code) or (self.saved and code != 0)
        is_done = code == 0 and self.ending.is_done  # whatever it was told meanwhile
        suspended = self.why in ("", "suspend") and (saved or stopped) and not is_done
        if self.is_terminated and self.why in ("", "suspend", "rank"):
            # Slurm ends a job by SIGTERM to all its processes, ranks included: it did not fail.
            suspended |= code == TERMINATED or (code != 0 and self.why != "rank")
        is_unfinished = code == 0 and not suspended and self._is_unfinished()
        group = self.order.cgroup
        short = kills(group) if group else 0
        if group and short:
            self._explain_kill(held_to(group)[1])
        status = Status(
            code=code,
            codes=tuple(self.codes),
            suspended=suspended or is_unfinished,
            why=self.why,
            saved=saved or (is_unfinished and self.saved),
            saved_ns=self.saved_ns,
            stragglers=stragglers,
            memory_kills=short,
            output_dropped_bytes=self.dropped,
            ended_ns=time.monotonic_ns(),
            signal=code - 128 if code in self.killed else None,
            is_unfinished=is_unfinished,
        )
        spare: str | None = f"{self.folder}/reserve"
        while True:
            try:
                put(f"{self.folder}/status", status, spare)
                break
            except OSError:  # a full disk: nobody may think this attempt over, or its end lost
                if spare is None:
                    time.sleep(POLL_S)
                    self._restore_traces()
                spare = None  # somebody had removed it, or its room alone will do
        failpoint("attempt ended")
        if group:
            close_group(group)
        self.announce()

    def _is_unfinished(self) -> bool:
        """Say whether a status of 0 is no end of the work; warn where it is in doubt."""
        if self.why != "suspend" and not (self.is_terminated and not self.why):
            return False
        found = self.ending.of_zero(is_terminated=self.is_terminated, has_saved=self.saved)
        if found.warning:
            self.note("warned", text=found.warning)
            self._say(f"warning: it {found.warning}")
        return found.is_unfinished

    def _explain_kill(self, memory_mb: int) -> None:
        """Say in the job's own output why it was killed."""
        self._say(f"killed for using more than its {memory_mb} MB of memory")

    def _say(self, text: str) -> None:
        """Say something in the job's own output."""
        try:
            with open(f"{self.folder}/stderr.0", "a", encoding="utf-8") as file:
                file.write(f"shunter: {text}\n")
        except OSError:
            return


def note_leaving(folder: str, by: str) -> None:
    """Note the first signal by which the batch system told an attempt to end."""
    if not os.path.exists(f"{folder}/leaving"):
        with suppress(OSError):  # a full disk: what it has yet to save is more urgent
            put(f"{folder}/leaving", {"signal": by, "wall_ns": time.time_ns()})


def _waited() -> tuple[int, int]:
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return (0, 0)


class Stopping:
    """Whether an attempt is to stand still, and does: suspend mode `stop`.

    Its processes hear SIGTSTP, which one may handle to put itself in order (of a job below a
    launcher, its ranks do), and then SIGSTOP, which none can; SIGCONT lets them go on. All that
    they hold, they keep: GPUs, memory, open files.
    """

    def __init__(
        self,
        processes: Callable[[], Collection[int]],
        asked: Callable[[Collection[int]], Collection[int]],
        note: Callable[[str], None],
    ) -> None:
        self._processes, self._asked, self._note = processes, asked, note
        self._is_stopped = False
        self._due_s: float | None = None

    def stop(self, now_s: float) -> None:
        """Ask them to stand still; a while later they are made to."""
        if not self._is_stopped and self._due_s is None:
            self._signal(signal.SIGTSTP, self._asked(self._processes()))
            self._due_s = now_s + STOP_S

    def go_on(self) -> None:
        """Let them go on, and say so if they had been stopped."""
        was_stopped, was_asked = self._is_stopped, self._due_s is not None
        self._is_stopped, self._due_s = False, None
        if was_stopped or was_asked:
            self._signal(signal.SIGCONT, self._processes())
        if was_stopped:
            self._note("continued")

    def look(self, now_s: float) -> None:
        """Make them stand still if it is time."""
        if self._due_s is None or now_s < self._due_s:
            return
        self._due_s = None
        stop_all(self._processes)
        self._is_stopped = True
        self._note("stopped")

    def patience_s(self, now_s: float, otherwise_s: float) -> float:
        """Return how long nothing has to be done, at most so long."""
        return (
            otherwise_s if self._due_s is None else max(0.0, min(otherwise_s, self._due_s - now_s))
        )

    def _signal(self, number: int, pids: Iterable[int]) -> None:
        for pid in pids:
            kill(pid, number)


class AttemptFiles:
    """The lock and the record by which an attempt is known to run.

    They are made anew where they are gone. A scratch folder may be purged under a running job,
    whole or file by file. Its supervisor looks now and then whether the lock that it holds is still
    the one in its folder.
    """

    def __init__(self, folder: str, lock: int, started: Mapping[str, object]) -> None:
        self._folder, self._lock, self._started = folder, lock, started
        self._replaced: list[int] = []

    def are_there(self) -> bool:
        """Say whether others can tell by the folder that this attempt runs."""
        names = ("started", *CHANNELS)
        return self._is_locked() and all(os.path.exists(f"{self._folder}/{name}") for name in names)

    def restore(self) -> bool:
        """Make what lacks; False on a full disk, say: it is to be tried again."""
        try:
            make_folder(self._folder)
            if not self._is_locked() and not self._lock_anew():
                return False
            if get(f"{self._folder}/started") is None:
                put(f"{self._folder}/started", self._started)
        except OSError:
            return False
        return True

    def _is_locked(self) -> bool:
        return is_at(self._lock, f"{self._folder}/lock")

    def _lock_anew(self) -> bool:
        lock = hold(f"{self._folder}/lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is None:  # somebody looks just now
            return False
        self._replaced.append(self._lock)  # kept open: by it we were known until now
        self._lock = lock
        return True
