"""One attempt while it runs: what its supervisor hears, and what it does about it.

Only the standard library of Python 3.8 or later, as in supervisor.py, which says what lies where.
"""

# Importing pathlib would cost more than all the rest of the start, so paths are strings here.
# ruff: noqa: PTH108, PTH110, PTH123

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.failpoints import failpoint
from shunter.backends.node.heartbeat import Heartbeat
from shunter.backends.node.messages.channel import Channel
from shunter.backends.node.messages.commands import commands_in
from shunter.backends.node.messages.journal import Journal
from shunter.backends.node.output.files import bound
from shunter.backends.node.output.times import STREAMS, Times, Writes
from shunter.backends.node.processes.attempt_files import AttemptFiles
from shunter.backends.node.processes.reaper import (
    descendants,
    family,
    kill_remaining,
    remaining,
)
from shunter.backends.node.ranks import EXIT_SUSPENDED, Gate, exit_code, gang_code
from shunter.backends.node.records import catches, count_in, create_private, fifo, kill, put, tell
from shunter.backends.node.sampling import Sampling
from shunter.backends.node.shares.cgroups import close_group, held_to, kills
from shunter.backends.node.slicing.turns import Turns
from shunter.backends.node.stopping import Stopping

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Command, Message, Order

POLL_S, KILL_POLL_S, OWN_END_S = 1.0, 0.02, 5.0
TERMINATED, SAME_SIGNAL_S = 128 + signal.SIGTERM, 0.3
NOTED = ("acknowledged", "saved", "failed")
STRONGER = ("cooperative", "signal", "restart")


class Supervision:
    """One attempt while it runs: its ranks, what it was told, and what is done next."""

    def __init__(self, root: str, folder: str, order: Order) -> None:
        self.root, self.folder, self.order = root, folder, order
        self.living: dict[int, int] = {}
        self.codes: list[int | None] = [None] * len(order["ranks"])
        self.killed: list[int] = []  # the codes of those that a signal killed
        self.stages: list[tuple[str, float]] = []
        self.stage, self.asked, self.due_s = "", "", 0.0
        self.why, self.failed, self.saved, self.is_terminated = "", 0, False, False
        limits = order.get("heartbeat")
        self.heartbeat = None
        if limits:
            is_remote = limits.get("is_remote", False)
            self.heartbeat = Heartbeat(limits["path"], limits["deadline_s"], is_remote=is_remote)
        self.wake, wake_writer = os.pipe()
        for end in (self.wake, wake_writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._leave())
        user = order.get("user")
        self.traces: AttemptFiles | None = None
        self.writer = user and user["uid"]
        self.orders = fifo(f"{folder}/orders")
        self.channel = Channel(fifo(f"{folder}/channel", self.writer))
        self.journal = Journal(folder)
        self.dropped, self.trains = 0, False
        self.saved_ns: int | None = None
        self.sampling = Sampling(folder, len(order["ranks"]), order.get("sample_s", 0))
        self.stopping = Stopping(self._left, self.note)
        self.turns = Turns(root, order, lambda: family(order.get("cgroup")), self.note)
        ranks = range(len(order["ranks"]))
        self.gate = Gate(len(ranks), is_open=not order.get("awaits_others"))
        self.times = Times(folder, len(ranks))
        self.writes = Writes(f"{folder}/{name}.{rank}" for rank in ranks for name in STREAMS)
        self.looked_s = time.monotonic()

    def run(self) -> None:
        """Watch over the ranks until no process is left, and say how they ended."""
        self._check_heartbeat()  # this may have been stopped since the start was ordered
        self.times.look(time.time())
        self.turns.join()
        while self.living:
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
        stragglers = kill_remaining(self.order.get("cgroup"), self._reap)
        self._bound_output(last=True)
        self._write_status(stragglers)

    def suspend(self, mode: str) -> None:
        """Ask the job to leave, in a mode, and from its deadline on in stronger ones."""
        if self.why or mode == "never":
            return
        limits = self.order["suspend"]
        # One that is only stopped would keep its GPUs, and one held at its gate answers nothing.
        first = STRONGER.index(mode if mode in STRONGER and self.gate.is_open else "restart")
        self.asked = mode
        limits_s = (limits["cooperative_s"], limits["signal_s"], limits["restart_s"])
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
        line = f"{self.order['job']}/{self.order['attempt']}\n".encode()
        tell(f"{self.root}/notices", line)

    def _leave(self) -> None:
        """Suspend the job; Slurm sends its processes the same SIGTERM."""
        self.is_terminated = True
        self.suspend(self.order["suspend"]["mode"])

    def _await_own_end(self) -> None:
        """Wait for a SIGTERM that has reached the ranks before it reaches us."""
        ended = self.failed == TERMINATED or (TERMINATED in self.codes and not self.why)
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
        if self.stage == "signal":
            number = self.order["suspend"]["signal"]
            # Others would die of it: a launcher, or Python at its end, when it drops its handlers.
            listeners = [pid for pid in descendants() if catches(pid, number)]
            for pid in listeners:
                kill(pid, number)
            if not listeners:
                self.due_s = time.monotonic() + min(limit_s, OWN_END_S)
        elif self.stage in ("restart", "terminate"):
            for pid in self.living:
                if not kill(-pid, signal.SIGTERM):
                    kill(pid, signal.SIGTERM)  # it has no session of its own yet
        elif self.stage == "kill":
            for pid in self._left():
                kill(pid, signal.SIGKILL)

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
        limits = self.order.get("heartbeat")
        return min(POLL_S, limits["deadline_s"] / 4) if limits else POLL_S

    def _look(self) -> None:
        self.looked_s = time.monotonic()
        self._check_heartbeat()
        self._restore_traces()
        self._show_request()
        self.journal.mend()
        self.sampling.look(self.looked_s)
        self._bound_output()

    def _bound_output(self, *, last: bool = False) -> None:
        self.times.look(time.time(), last)
        most = self.order.get("output_bytes_max", 0)
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
                self.terminate("rank", float(self.order["grace_s"]))

    def _has_left(self, code: int) -> bool:
        """Say whether a rank left to go on later; in mode `never` only for Slurm."""
        may_leave = self.order["suspend"]["mode"] != "never" or self.is_terminated
        return code == EXIT_SUSPENDED and may_leave

    def _obey(self, order: Command) -> None:
        if order["do"] == "turns":  # of another supervisor: somebody comes or goes
            self.turns.told()
            return
        if (order["term"] or 0) < count_in(f"{self.root}/term", "term"):
            return  # from a scheduler that has been replaced
        do = order["do"]
        failpoint(f"attempt told to {do}")
        if do == "acknowledge":
            self.journal.acknowledge(order["upto"] or 0)
        elif do == "suspend":
            self.suspend(order["mode"] or self.order["suspend"]["mode"])
        elif do == "terminate":
            self.terminate("terminate", float(self.order["grace_s"]))
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
            if said["what"] == "progress":
                self.sampling.take(said)
                if not self.trains and said["state"] == "training":
                    self.trains = True
                    self.note("training")
            elif said["what"] in NOTED:
                self._note_said(said)
        if self.channel.is_to_be_told(last=last):
            self.note("refused", count=self.channel.dropped, cause=self.channel.cause)

    def _note_said(self, said: Message) -> None:
        what, step = said["what"], said["step"]
        if what == "saved":
            self.saved, self.saved_ns = self.why == "suspend", time.monotonic_ns()
        if self.journal.is_full:
            self.channel.drop("its scheduler has not read what was noted before")
        elif self.channel.may_note():
            if what == "acknowledged":
                self.note("acknowledged")
            elif what == "saved":
                path = said["checkpoint"] or ""
                self.note("saved", checkpoint=path, step=step, bytes=said["bytes"])
            else:
                self.note("failed", error=(said["error"] or "")[:500], step=step)
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
        return remaining(self.order.get("cgroup"))

    def _write_status(self, stragglers: int) -> None:
        code = self.failed or gang_code([code or 0 for code in self.codes])
        signalled = self.stage == "signal" and code == 128 + self.order["suspend"]["signal"]
        stopped = self.why == "suspend" and (self.stage in ("restart", "kill") or signalled)
        # A launcher between us and what saved (torchrun) turns its 75 into a failure of its own.
        saved = self._has_left(code) or (self.saved and code != 0)
        suspended = self.why in ("", "suspend") and (saved or stopped)
        if self.is_terminated and self.why in ("", "suspend", "rank"):
            # Slurm ends a job by SIGTERM to all its processes, ranks included: it did not fail.
            suspended |= code == TERMINATED or (code != 0 and self.why != "rank")
        group = self.order.get("cgroup")
        short = kills(group) if group else 0
        if group and short:
            self._explain_kill(held_to(group)[1])
        status = {
            "code": code,
            "codes": self.codes,
            "suspended": suspended,
            "why": self.why,
            "saved": saved,
            "saved_ns": self.saved_ns,
            "stragglers": stragglers,
            "memory_kills": short,
            "output_dropped_bytes": self.dropped,
            "ended_ns": time.monotonic_ns(),
            "signal": code - 128 if code in self.killed else None,
        }
        while True:
            try:
                put(f"{self.folder}/status", status)
                break
            except OSError:  # a full disk: nobody may think this attempt over, or its end lost
                if not self._free_reserve():
                    time.sleep(POLL_S)
                    self._restore_traces()
        self._free_reserve()
        failpoint("attempt ended")
        if group:
            close_group(group)
        self.announce()

    def _free_reserve(self) -> bool:
        """Remove the file that kept room for the status; say if it was there."""
        try:
            os.unlink(f"{self.folder}/reserve")
        except OSError:
            return False
        return True

    def _explain_kill(self, memory_mb: int) -> None:
        """Say in the job's own output why it was killed."""
        line = f"shunter: killed for using more than its {memory_mb} MB of memory\n"
        try:
            with open(f"{self.folder}/stderr.0", "a", encoding="utf-8") as file:
                file.write(line)
        except OSError:
            return


def _waited() -> tuple[int, int]:
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return (0, 0)
