"""A simulated node: a machine with its records on disk, and the attempts that run on it.

It lives on the clock of the run (`shunter.clock`) and outlives daemons: what reaches it is for its
`transport` to say. All that happens is at exact instants, and twice the same.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from shunter.backends.live import Server, Socket
from shunter.backends.node import Order
from shunter.events import NodeName
from tests.doubles.simulated_nodes.attempt import Attempt, Key, Run
from tests.doubles.simulated_nodes.checkpoints import Folder
from tests.doubles.simulated_nodes.machine import Machine

__all__ = ["SimulatedNode", "SimulatedServer"]


@dataclass(frozen=True, slots=True)
class SimulatedServer:
    """A server: GPUs as CUDA names them, CPUs, and its sockets."""

    name: NodeName
    gpus: tuple[str, ...]
    cpus: tuple[int, ...] = (0,)
    sockets: tuple[Socket, ...] = ()


class SimulatedNode:
    """A machine with one server or several, which has just been booted.

    `owner` is the cluster, term and holder of who has claimed it. `runs` is all that ever ran here,
    in order of its begin, and `listener` the session that is told what is new.
    """

    def __init__(self, *servers: Server) -> None:
        self.name = servers[0].name
        self.servers = servers
        self.machine = Machine(self.name)
        self.attempts: dict[Key, Attempt] = {}
        self.checkpoints: dict[str, Folder] = defaultdict(Folder)
        self.fences: dict[str, int] = {}
        self.owner: tuple[str, int, str] | None = None
        self.runs: list[Run] = []
        self.listener: Callable[[Key], None] | None = None

    def begin(self, order: Order, folder: str) -> str:
        """Start an attempt that was never there; return why not, if it may not."""
        if self.owner is None or order.term < self.owner[1]:
            return f"term {order.term} was replaced"
        if order.attempt <= self.fences.get(order.job, 0):
            return f"attempt {order.attempt} was fenced"
        if order.slicing is not None:
            return "no jobs take turns on simulated nodes"
        checkpoints = self.checkpoints[order.checkpoints]
        checkpoints.is_whole = False
        attempt = Attempt(self.machine, order, folder, checkpoints.files, self.announce)
        self.attempts[attempt.key] = attempt
        self.runs.append(attempt.run)
        self.announce(attempt.key)
        return ""

    def fence(self, job: str, attempt: int) -> None:
        """Let no attempt of a job up to one start any more."""
        self.fences[job] = max(attempt, self.fences.get(job, 0))

    def announce(self, key: Key) -> None:
        """Tell the session, if there is one, that there is something to read."""
        if self.listener is not None:
            self.listener(key)

    def kill_supervisor(self, job: str, attempt: int) -> None:
        """Let a supervisor be killed; what it leaves is swept at once."""
        self.machine.advance()
        if (job, attempt) in self.attempts:
            self.attempts[(job, attempt)].lose()
            self.announce((job, attempt))

    def reboot(self) -> None:
        """Lose all processes, and begin to count time anew; files stay."""
        self.machine.advance()
        for attempt in self.attempts.values():
            attempt.lose()
        self.listener = None
        self.machine.reboot()
        self.machine.wake()
