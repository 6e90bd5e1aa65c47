"""The supervisors of an agent: those of short attempts go on to others, one after the other.

To fork Python twice, and to copy the memory that both processes write to, takes longer than all
else that a short attempt needs. So a supervisor whose attempt was over soon waits for another one.
It has one at a time: what is below it is of that attempt, and who kills it ends no other.

Each has a socket of whole messages (SOCK_SEQPACKET) in common with its agent:

    agent         an order, with the file by which the lock of its attempt is held
    supervisor    what came of the start, and IDLE with its process once it would take another one

The lock is held all the time: by the agent, in the message, by the supervisor. The agent says when
one has been idle for too long, by closing the socket, so no order meets one that is leaving. One
that finds its agent gone ends once its attempt has. A lock in a message that nobody reads would be
held for ever, so one that was stopped (SIGSTOP) and leaves an order unread is killed.
"""

from __future__ import annotations

import array
import json
import os
import select
import signal
import socket
import time
from contextlib import suppress

from shunter.backends.node.messages import Order, StartAnswer
from shunter.backends.node.ranks import close_all_but, tell_of_parents_end
from shunter.backends.node.records import LINE_BYTES_MAX, failpoint, kill, stands_still
from shunter.backends.node.supervision import (
    Supervisor,
    answer_in,
    become_supervisor,
    failed,
    is_plain,
    lock_attempt,
    supervise,
)

IDLE = b"idle"
IDLE_S = 2.0
UNREAD_S = 5.0
"""An order that was not answered for so long may be unread: less than `backend.launch`."""
ATTEMPTS_MOST = 1000
"""For so many attempts a supervisor is used: what it may hold by mistake is given back then."""
ORDER_BYTES_MOST = 1 << 16
"""The kernel takes longer messages; who has more in its environment has a supervisor forked."""
FILE_BYTES = array.array("i", [0]).itemsize


class Supervisors:
    """The supervisors of an agent, by the file of the socket to each.

    Args:
        poll: where their files are registered.
    """

    def __init__(self, poll: select.poll) -> None:
        self._poll = poll
        self._sockets: dict[int, socket.socket] = {}
        self._idle: dict[int, float] = {}  # since when; who was busy last is the last
        self._given: dict[int, float] = {}  # when an order was handed over that is not answered
        self._pids: dict[int, int] = {}  # of those that were idle once

    def __contains__(self, file: object) -> bool:
        """Say whether a file is the socket of one."""
        return file in self._sockets

    def begin(self, root: str, order: Order, *, is_new: bool) -> StartAnswer | int:
        """Begin to start an attempt, once, under a supervisor that is idle or a new one.

        Returns:
            what came of it, or the file by which its supervisor tells that (`hear`).
        """
        try:
            lock = lock_attempt(root, order, is_new=is_new)
            if isinstance(lock, StartAnswer):
                return lock
            try:
                file = self._hand_over(order, lock) if is_plain(order) else None
                return self._fork(root, order, lock) if file is None else file
            finally:
                os.close(lock)  # only this copy: the supervisor holds the lock on
        except OSError as error:  # a full disk, say: nothing was begun
            return failed(error)

    def hear(self, file: int) -> StartAnswer | None:
        """Take in what a supervisor says; return what came of a start.

        None: that was told before; the supervisor may be idle now. Of a start under one that is
        gone nothing is known.
        """
        try:
            said = self._sockets[file].recv(LINE_BYTES_MAX)
        except BlockingIOError:
            return None
        except OSError:  # it was killed before it had read what it was given
            said = b""
        self._given.pop(file, None)
        if said.startswith(IDLE):
            self._idle[file] = time.monotonic()
            self._pids[file] = int(said[len(IDLE) :])
            return None
        if not said:
            self._drop(file)
        return answer_in(said)

    def dismiss(self) -> None:
        """Let those go that were idle for too long, and end those that read no order."""
        now_s = time.monotonic()
        for file, since_s in list(self._idle.items()):
            if now_s - since_s >= IDLE_S:
                self._end_if_stopped(file)
                self._drop(file)
        for file, since_s in self._given.items():
            if now_s - since_s >= UNREAD_S:
                self._end_if_stopped(file)  # which we hear: nothing is known of the start then

    def patience_s(self, otherwise_s: float) -> float:
        """Return how long none is to be dismissed, at most so long."""
        return min(otherwise_s, IDLE_S) if self._idle or self._given else otherwise_s

    def let_go(self) -> None:
        """Close what would hide our end from them, in a process that was forked."""
        for each in self._sockets.values():
            each.close()
        self._sockets, self._idle, self._given = {}, {}, {}

    def _hand_over(self, order: Order, lock: int) -> int | None:
        """Give an order to a supervisor that is idle; None if none takes it."""
        line = json.dumps(order).encode()
        with_it = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [lock]))]
        while self._idle and len(line) <= ORDER_BYTES_MOST:
            file, _ = self._idle.popitem()
            with suppress(OSError):  # it was killed meanwhile
                self._sockets[file].sendmsg([line], with_it)
                self._given[file] = time.monotonic()
                failpoint("attempt handed over")
                return file
        return None

    def _fork(self, root: str, order: Order, lock: int) -> int:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            if os.fork() == 0:
                try:
                    ours.close()
                    self.let_go()
                    # What else the agent has open would seem to be held or read here for ever.
                    close_all_but(theirs.fileno(), lock)
                    _be_supervisor(root, order, lock, theirs)
                finally:
                    os._exit(0)
        ours.settimeout(0)
        self._sockets[ours.fileno()] = ours
        self._poll.register(ours, select.POLLIN)
        return ours.fileno()

    def _end_if_stopped(self, file: int) -> None:
        if stands_still(self._pids[file]):
            kill(self._pids[file], signal.SIGKILL)

    def _drop(self, file: int) -> None:
        self._poll.unregister(file)
        for each in (self._idle, self._given, self._pids):
            each.pop(file, None)
        self._sockets.pop(file).close()


def _be_supervisor(root: str, order: Order, lock: int, agent: socket.socket) -> None:
    """Supervise an attempt and, if that was a short one, others."""
    group = become_supervisor(agent.fileno(), is_bound=order.is_bound)
    if group is None:
        return
    own, reaper = Supervisor(agent.fileno(), group), os.getppid()
    given: tuple[Order, int] | None = (order, lock)
    for _ in range(ATTEMPTS_MOST):
        if given is None or not supervise(root, *given, own):
            return
        _forget_attempt(own)
        tell_of_parents_end(signal.SIGKILL)  # without a reaper it may have no other attempt
        if os.getppid() != reaper:
            return
        failpoint("attempt given up")
        agent.send(IDLE + str(os.getpid()).encode())
        given = _receive(agent)
        tell_of_parents_end(0)


def _forget_attempt(own: Supervisor) -> None:
    """Give up all that is of an attempt, its lock last known by what it wrote."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    close_all_but(own.answers)


def _receive(agent: socket.socket) -> tuple[Order, int] | None:
    """Wait for the next order and the lock of its attempt.

    None: the agent wants nothing more, or is gone.
    """
    line, with_it, _, _ = agent.recvmsg(ORDER_BYTES_MOST, socket.CMSG_SPACE(FILE_BYTES))
    if not line:
        return None
    failpoint("attempt taken on")
    lock = array.array("i")
    lock.frombytes(with_it[0][2][:FILE_BYTES])
    return Order.decoded(json.loads(line)), lock[0]
