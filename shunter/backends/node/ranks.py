"""The processes of an attempt: its ranks, the codes they end with, and the reaper of the rest."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import signal
import time
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import MARK, SEAL
from shunter.backends.node.cgroups import close_group, enter, members
from shunter.backends.node.records import below, failpoint, kill, libc, listed_below, processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from shunter.backends.node.messages import Order, User

EXIT_SUSPENDED = 75
EXIT_NOT_RUN = 127
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
HANDLED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE)
REAP_POLL_S, REAP_POLL_S_MAX = 0.002, 1.0
PARENT_ENDED = signal.SIGRTMIN + 1


class Gate:
    """Keeps ranks from their program until all servers of a gang have started.

    Bytes open it, one for each rank: the end of the file would also mean that the supervisor died.
    """

    def __init__(self, ranks: int, *, is_open: bool) -> None:
        self.is_open, self._ranks = is_open, ranks
        self.reader, self._writer = (-1, -1) if is_open else os.pipe()

    def open(self) -> None:
        """Let the ranks run."""
        if not self.is_open:
            self.is_open = True
            os.write(self._writer, b"." * self._ranks)

    def wait(self) -> None:
        """Wait in a rank until it may run; raise ValueError if it never may."""
        if self.reader >= 0 and not os.read(self.reader, 1):
            raise ValueError("its supervisor is gone")


def make_outputs(folder: str, order: Order) -> None:
    """Make the files that ranks print to, while nothing is begun yet.

    Raises:
        OSError: there is none.
    """
    for number in range(len(order.ranks)):
        for name in ("stdout", "stderr"):
            os.close(_opened_output(f"{folder}/{name}.{number}", order.user))


def is_free(port: int) -> bool:
    """Say whether nobody listens on a port of this machine."""
    import socket  # only where a port is asked for: it takes milliseconds

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as those will who get it
        try:
            tried.bind(("", port))
        except OSError:
            return False
    return True


def spawn(folder: str, order: Order, number: int, lock: int, gate: Gate) -> int:
    """Start one rank, whose failure to start is an exit like any other."""
    parent, rank = os.getpid(), order.ranks[number]
    environment = _environment(folder, order, number)
    # Each page of memory that a rank touches before its program is copied: it does little itself.
    unused = open_between(lock, gate.reader)
    # A rank that still has the handlers of its supervisor would act on a signal as that does.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if order.slicing:  # so that no order to go on comes before it stands still
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for handled in HANDLED:
            signal.signal(handled, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _become_rank(folder, order, number, (lock, unused), parent)
        if order.slicing:  # until its first turn
            os.kill(os.getpid(), signal.SIGSTOP)
        gate.wait()
        _execute(rank.argv, environment)
    except (OSError, KeyError, IndexError, ValueError) as error:
        said = f"shunter: cannot run {[*rank.argv]}: {error}\n"
        os.write(2, said.encode("utf-8", "backslashreplace"))
    finally:
        os._exit(EXIT_NOT_RUN)


def _become_rank(
    folder: str, order: Order, number: int, files: tuple[int, Iterable[range]], parent: int
) -> None:
    """Take the session, files, CPUs and user of a rank.

    Of its files the first is kept, and those in the spans are closed.
    """
    rank, user = order.ranks[number], order.user
    lock, unused = files
    os.setsid()
    for target, name in ((1, "stdout"), (2, "stderr")):
        output = _opened_output(f"{folder}/{name}.{number}", user)
        os.dup2(output, target)
        os.close(output)  # it may lie behind the spans, which are of before
    group = order.cgroup
    if group:
        enter(group)
    fcntl.fcntl(lock, fcntl.F_SETFD, 0)  # kept open by exec, and by what the rank starts
    if rank.cpus:
        _bind(rank.cpus)
    for each in unused:
        os.closerange(each.start, each.stop)
    if user is not None:
        os.setgroups(user.groups)
        os.setgid(user.gid)
        os.setuid(user.uid)
    tell_of_parents_end(signal.SIGKILL)  # after the change of user, which resets it
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        os.chdir(rank.directory)
    except OSError as error:
        raise ValueError(
            f"its directory {rank.directory} cannot be entered: {error.strerror}"
        ) from error


def _environment(folder: str, order: Order, number: int) -> dict[str, str]:
    """Return the environment of a rank."""
    own = {MARK: folder, SEAL: order.seal}
    own.update(SHUNTER_SUSPEND=f"{folder}/suspend", SHUNTER_CHANNEL=f"{folder}/channel")
    if order.slicing:
        own["SHUNTER_TURN"] = f"{folder}/turn"
    return {**order.ranks[number].env, **own}


def _bind(cpus: Iterable[int]) -> None:
    """Bind this process to those of some CPUs that are here, or ValueError."""
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        here = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        wanted = ", ".join(map(str, cpus))
        raise ValueError(
            f"none of its CPUs ({wanted}) is here, but {here}: correct cpus or socket_cpus in the "
            "config of the cluster"
        ) from error


def _opened_output(path: str, user: User | None) -> int:
    """Return an open file for what a rank prints, which is its user's."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if user is not None:
        os.fchown(file, user.uid, user.gid)
    return file


def _execute(argv: tuple[str, ...], environment: Mapping[str, str]) -> None:
    """Become a program; raise ValueError if it cannot be run."""
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        raise ValueError(_why_not(argv[0], error)) from error


def _why_not(program: str, error: OSError) -> str:
    """Return why a program could not be run, and what to do where that is known."""
    if isinstance(error, FileNotFoundError):
        if "/" not in program:
            return f"there is no program {program!r} in PATH"
        if os.path.exists(program):
            return f"{program} is there, but not the interpreter that its first line names"
        return f"there is no file {program} in {os.getcwd()}"
    if isinstance(error, PermissionError) and os.path.isfile(program):
        return f"{program} may not be executed: chmod +x {program}, or shunter submit {program}"
    if error.errno == errno.ENOEXEC:
        return f"{program} is no program: it has no first line such as #!/bin/sh"
    return f"{program}: {error.strerror}"


def exit_code(wait_status: int) -> int:
    """Return an exit code as shells do: 128 and the number for a signal."""
    if os.WIFSIGNALED(wait_status):
        return 128 + os.WTERMSIG(wait_status)
    return os.WEXITSTATUS(wait_status)


def gang_code(codes: list[int]) -> int:
    """Return the code of all ranks: a failure, or else a suspension, or else 0."""
    failed = [code for code in codes if code not in (0, EXIT_SUSPENDED)]
    return failed[0] if failed else max(codes)


# The reaper kills what is left of an attempt whose supervisor was killed, also where no scheduler
# reaches the host. It is the supervisor's parent, and as a subreaper gets all its orphans. If both
# are killed, processes may live on until `sweep` finds them.


class ReaperGroup:
    """The control group of the attempt under way, as a supervisor tells its reaper.

    It is in memory that both share: there it is told without a word from a supervisor that dies.
    """

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, mmap.PAGESIZE)

    def put(self, group: str | None) -> None:
        """Tell of the group of an attempt of which no process is there yet."""
        self._shared[:1] = b"\0"  # until all of the name is there
        if group:
            name = os.fsencode(group) + b"\0"
            self._shared[1 : 1 + len(name)] = name
            self._shared[:1] = b"\1"

    def get(self) -> str | None:
        """Return the group that was told of last."""
        if self._shared[:1] != b"\1":
            return None
        return os.fsdecode(self._shared[1:].partition(b"\0")[0])


def go_on_below_reaper(*, is_bound: bool = False) -> ReaperGroup:
    """Go on as a child of this process, which stays as the reaper and never returns.

    Args:
        is_bound: the supervisor is killed once the process that started this one has ended.

    Returns:
        what tells the reaper which control group is to be emptied.

    Raises:
        OSError: there is no room for another process.
    """
    adopt_orphans()
    parent, group = os.getppid(), ReaperGroup()
    supervisor = os.fork()
    if not supervisor:
        os.setsid()  # a signal to the session of one is none to the other
        return group
    try:
        if is_bound:
            _kill_once_ended(supervisor, parent)
        _reap_after(supervisor, group)
    finally:
        os._exit(0)


def _kill_once_ended(supervisor: int, parent: int) -> None:
    """Have a child killed once our parent has ended, by whatever."""
    signal.set_wakeup_fd(-1)
    signal.signal(PARENT_ENDED, lambda *_: kill(supervisor, signal.SIGKILL))
    tell_of_parents_end(PARENT_ENDED)
    if os.getppid() != parent:
        kill(supervisor, signal.SIGKILL)


def _reap_after(supervisor: int, told: ReaperGroup) -> None:
    """Wait for the end of a child, and kill what it has left."""
    for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    close_all_but()  # who holds the lock of an attempt is taken for its supervisor
    failpoint("attempt reaper ready")
    os.waitpid(supervisor, 0)
    group = told.get()
    kill_remaining(group)
    if group:
        close_group(group)


def adopt_orphans() -> None:
    """Become the parent of what forks away below this process."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def tell_of_parents_end(number: int) -> None:
    """Have this process get a signal when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    libc().prctl(option, value, 0, 0, 0)


def close_all_but(*kept: int) -> None:
    """Close all files but the first three and some more.

    Who stops this process would hold with it what others wait for: locks, the fences among them.
    """
    for each in open_between(*kept):
        os.closerange(each.start, each.stop)


def open_between(*kept: int) -> list[range]:
    """Return the spans in which all open files are but the first three and some more."""
    first, found = 3, []
    for number in sorted({*kept, 1 + max(map(int, sorted(os.listdir("/proc/self/fd"))))}):
        if number > first:
            found.append(range(first, number))
        first = max(first, number + 1)
    return found


def kill_remaining(group: str | None, reap: Callable[[], None] | None = None) -> int:
    """Kill all processes below this one or in a group, until none is left.

    Args:
        group: a control group, if there is one.
        reap: called again and again meanwhile.

    Returns:
        how many there were.
    """
    left = remaining(group)
    count, before, pause_s = len(left), left, REAP_POLL_S
    while left:
        for pid in left:
            kill(pid, signal.SIGKILL)
        time.sleep(pause_s)
        if reap is not None:
            reap()
        before, left = left, remaining(group)
        # Some take long to die, in a driver, and some cannot be killed by us.
        pause_s = min(2 * pause_s, REAP_POLL_S_MAX) if left == before else REAP_POLL_S
    return count


def remaining(group: str | None) -> list[int]:
    """Return all processes below this one or in a group, wherever they forked to."""
    return sorted({*descendants(), *(members(group) if group else ())})


def descendants() -> list[int]:
    """Return all living processes below this one, adopted orphans included."""
    if not _has_children():  # the usual end of a job, which needs no look at all of the machine
        return []
    return below(os.getpid(), processes())


def _has_children() -> bool:
    """Say whether this process has any; who adopts orphans has descendants only then."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def family(group: str | None) -> list[int]:
    """Return all processes below this one or in a group, maybe ended ones too.

    It looks at these only, not at all of the machine, and so may miss one that comes or goes just
    now: who needs them all stops what it has found, and looks again until it finds no other.
    """
    try:
        found = listed_below(os.getpid())
    except FileNotFoundError:  # a kernel without these files
        return remaining(group)
    return sorted({*found, *(members(group) if group else ())})


def stop_all(processes: Callable[[], Iterable[int]]) -> None:
    """Stop processes, until a look finds no other: one may have forked."""
    before: list[int] = []
    while (found := sorted(processes())) != before:
        before = found
        for pid in found:
            kill(pid, signal.SIGSTOP)
