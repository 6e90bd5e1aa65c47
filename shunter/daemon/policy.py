"""The policy as the live scheduler asks it: every answer comes from its process, in time or never.

A step takes in what happened, sends it to the policy, and asks for a plan if one is due. The answer
is kept here, where the scheduler finds it as if the policy were in its process. While the policy
plans no fact is folded; what the step took in before is handed on without waiting for the plan.

A policy that answers too late, or whose process ends, is set aside until the scheduler is
restarted: a fact says so, jobs run on, and none is started.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import anyio
import msgspec

from shunter import clock
from shunter.core import (
    EMPTY_PLAN,
    AnyPolicy,
    Effect,
    Input,
    Observers,
    Plan,
    Rng,
    Scheduler,
    State,
    View,
)
from shunter.core.planning import NoMemory, OnFault
from shunter.errors import PlanError
from shunter.events import Event, JobId, SolvedFact, encode_payload, facts
from shunter.policy_process import (
    HEADER,
    REPLY,
    Begin,
    Child,
    Decide,
    Decided,
    DryRan,
    DryRun,
    Failed,
    Order,
    Ordered,
    PolicyStatus,
    Remember,
    Remembered,
    Reply,
    Request,
    Tell,
    plan_of,
    taken,
    targets_of,
)

# A question that is not answered in time ends the process, as does anything it says that is no
# answer. The loop of the daemon never waits in it.

R = TypeVar("R")

BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from shunter.policy_process.child import main; main()"
)
END_S = 5.0
REPLY_BYTES_MOST = 64 << 20


def start_process(theirs: socket.socket) -> subprocess.Popen[bytes]:
    """Start the process, with its end of the socket."""
    path = msgspec.json.encode([one or str(Path.cwd()) for one in sys.path]).decode()
    words = [sys.executable, "-c", BOOT, str(theirs.fileno()), str(os.getpid()), path]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(theirs.fileno(),))


class Replies:
    """One end of a socket on which replies come."""

    def __init__(self, ours: socket.socket) -> None:
        ours.settimeout(0)
        self._socket = ours
        self._received = bytearray()

    async def reply(self) -> Reply:
        """Wait for the reply; one that is given up may be waited for again.

        Raises:
            PlanError: the process has ended, or what it says is no reply.
        """
        while (body := self._whole()) is None:
            try:
                part = self._socket.recv(1 << 20)
            except BlockingIOError:
                with suppress(anyio.ClosedResourceError):  # which the next look at it says
                    await anyio.wait_readable(self._socket)
                continue
            except OSError:
                part = b""
            if not part:
                raise self._gone()
            self._received += part
        try:
            found = REPLY.decode(body)
        except msgspec.MsgspecError as error:
            raise PlanError(f"its process said what is no answer: {error}") from error
        if isinstance(found, Failed):
            raise PlanError(found.cause)
        return found

    def close(self) -> None:
        """Take no more replies; who waits for one is told that there is none."""
        with suppress(RuntimeError):  # without a loop nobody waits
            anyio.notify_closing(self._socket)
        self._socket.close()

    def _whole(self) -> bytes | None:
        """Take a whole reply out of what has come; PlanError: it is too long."""
        if len(self._received) < HEADER.size:
            return None
        size = HEADER.size + int(HEADER.unpack_from(self._received)[0])
        if size > REPLY_BYTES_MOST:
            raise PlanError(
                f"its process says {size:,} bytes at once, and {REPLY_BYTES_MOST >> 20} MiB at "
                "most are taken: a plan or the policy's memory is far too large"
            )
        if len(self._received) < size:
            return None
        body = bytes(self._received[HEADER.size : size])
        del self._received[:size]
        return body

    def _gone(self) -> PlanError:
        """Say how that ended from which replies came."""
        return PlanError("its process closed its connection")


class PolicyProcess(Replies):
    """A process with a socket to it; `close` ends it."""

    def __init__(self) -> None:
        self._process: Child
        if forked := taken():
            ours, self._process = forked
        else:
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = start_process(theirs)
        super().__init__(ours)

    async def send(self, request: Request, descriptors: Sequence[int] = ()) -> None:
        """Send a request, and descriptors with it; the one before has been answered.

        Raises:
            PlanError: the process has ended.
        """
        body = msgspec.msgpack.encode(request)
        rest = memoryview(HEADER.pack(len(body)) + body)
        while rest:
            try:
                if descriptors:
                    rest = rest[socket.send_fds(self._socket, [rest], descriptors) :]
                    descriptors = ()
                else:
                    rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except OSError:
                raise self._gone() from None

    async def dry_run(self, request: DryRun) -> Replies:
        """Ask for a dry run, in a copy of the process; return where its reply comes.

        Raises:
            PlanError: the process has ended.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            await self.send(request, [theirs.fileno()])
        return Replies(ours)

    def close(self) -> None:
        """End the process, whatever it is at."""
        super().close()
        self._process.kill()
        self._process.wait()

    def _gone(self) -> PlanError:
        """Say how the process ended."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return super()._gone()
        if code >= 0:
            return PlanError(f"its process ended with exit code {code}")
        return PlanError(f"its process was ended by {signal.Signals(-code).name}")


HandOn = Callable[[], Awaitable[None]]
"""Makes what a step has taken in durable, carries it out, and answers whoever asked for it."""

START = "start"
START_S = 60.0
"""What a process may take to start beyond that: it has much to import."""

LAG_S = 0.005
"""How often it is looked whether the policy has been told of a step; ours."""

PROMPT_S = 0.1
"""After so long, what a step has taken in does not wait for the plan any more."""


class PolicyProxy:
    """A policy in a process of its own, from the start of a term to its end."""

    is_lost = False

    def __init__(
        self, policy: AnyPolicy, started: facts.SchedulerStarted, state: bytes, limit_us: int
    ) -> None:
        """Take the policy that decides from a start on, and the state before it, encoded."""
        self.name, self.version, self.oracle = policy.name, policy.version, policy.oracle
        self.aside = ""
        self.trace = ""
        self._limit_s = limit_us / 1e6
        self._beginning: Begin | None = Begin(encode_payload([started]), state)
        self._process: PolicyProcess | None = PolicyProcess()
        self._turn = anyio.Lock()
        self._hook, self._since_s = "", 0.0
        self._standing = PolicyStatus(settled=False, wake_us=None)
        self._targets: SolvedFact | None = None
        self._plan = EMPTY_PLAN
        self._untold: list[Event] = []
        self._told = 0
        self._lost = ""
        self._order: tuple[JobId, ...] = ()

    def start(self, view: View) -> NoMemory:
        """Return nothing: the memory is in the policy's process."""
        self._told = view.seq
        return NoMemory()

    def observers(self, memory: object) -> Observers:
        """Return none: the process is told of all events."""
        return {}

    def advance(self, memory: object, view: View) -> None:
        """Do nothing: the process has done it."""

    def target(self, memory: object, view: View) -> SolvedFact | None:
        """Return the targets that came with the plan."""
        return self._targets

    def plan(self, memory: object, view: View, rng: Rng) -> Plan:
        """Return the plan that was asked for."""
        return self._plan

    def wake_at(self, memory: object) -> int | None:
        """Return when it could decide otherwise, as it said last."""
        return None if self.aside else self._standing.wake_us

    def settled(self, memory: object) -> bool:
        """Say whether a plan made now could change nothing, as it said last."""
        return bool(self.aside) or self._standing.settled

    def keep(self, events: Sequence[Event]) -> None:
        """Keep facts of which the policy is to be told with the next step."""
        self._untold += events

    async def step(
        self, core: Scheduler, now_us: int, inputs: Sequence[Input], hand_on: HandOn
    ) -> tuple[list[Event], list[Effect]]:
        """Take in what happened, decide if that is due, return what is to be done.

        Raises:
            PlanError: the policy failed, and that is to end the scheduler.
        """
        core.take_in(now_us, inputs)
        self._set_aside_if_lost(core, now_us)
        await self._tell(core, now_us, hand_on)
        if core.is_due(now_us):
            await self._decide(core, now_us, hand_on)
            await self._tell(core, now_us, hand_on)
        return core.hand_on()

    async def order(self) -> tuple[JobId, ...]:
        """Return who waits, in the policy's order; the last known while it is busy."""
        if not self._hook and not self._beginning:
            found = await self._asked(Order(), "observer")
            if isinstance(found, Ordered):
                self._order = found.jobs
        return self._order

    async def dry_run(
        self, submitted: facts.JobSubmitted, state: State, now_us: int, limit_s: float
    ) -> DryRan | None:
        """Return what the next plan would do with a job.

        None: nobody can say, or not in time. The policy is kept from its work for no longer than it
        takes to copy its process.

        Args:
            submitted: the job, of which no fact tells.
            state: that of now; the policy is asked once it knows all of it.
            now_us: the instant.
            limit_s: how long that may take.
        Raises:
            PlanError: the policy failed on it.
        """
        with anyio.move_on_after(limit_s):
            request = DryRun(encode_payload([submitted]), now_us, limit_s)
            while (replies := await self._copied(request, state)) is None:
                if self._process is None or self._lost:
                    return None
                await anyio.sleep(LAG_S)
            with closing(replies):
                found = await replies.reply()
            return found if isinstance(found, DryRan) else None
        return None

    async def _copied(self, request: DryRun, state: State) -> Replies | None:
        """Have the process copied; None: it does not know the state yet, or is gone."""
        replies: Replies | None = None
        async with self._turn:
            is_told = self._told == state.seq and not self._untold
            if self._process is not None and not self._lost and is_told:
                with anyio.CancelScope(shield=True):
                    replies = await self._process.dry_run(request)
        return replies

    async def farewell(self, events: Sequence[Event]) -> None:
        """Tell the policy of the last facts of a term, on which nothing depends any more."""
        if self._beginning is None and await self._asked(Tell(encode_payload(events)), "observer"):
            self._told += len(events)

    async def memory(self, seq: int) -> bytes:
        """Return the policy's memory after an event; empty if it cannot be had."""
        if self._told != seq:
            return b""
        found = await self._asked(Remember(), "observer")
        return found.memory if isinstance(found, Remembered) else b""

    @property
    def is_busy(self) -> bool:
        """Whether the policy is at work now."""
        return bool(self._hook)

    @property
    def busy(self) -> tuple[str, float]:
        """What the policy is at, and for how many seconds; nothing if it is idle."""
        return (self._hook, clock.monotonic_s() - self._since_s) if self._hook else ("", 0.0)

    @property
    def limit_s(self) -> float:
        """How many seconds the answer that is awaited may take."""
        return self._limit_s + (START_S if self._hook == START else 0)

    @property
    def limit_in_words(self) -> str:
        """How long the answer that is awaited may take, by the key that says so."""
        more = f", and {START_S:g} s more to start" if self._hook == START else ""
        return f"policy.time_limit, {self._limit_s:g} s{more}"

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    async def _tell(self, core: Scheduler, now_us: int, hand_on: HandOn) -> None:
        """Tell the policy what was folded since it was told last."""
        pending = core.pending
        news = pending[max(0, len(pending) - (core.state.seq - self._told - len(self._untold))) :]
        events = [*self._untold, *news]
        if self.aside or not events:
            return
        seq, self._untold = core.state.seq, []
        if self._beginning is not None:
            begin, self._beginning = self._beginning, None
            await self._stood(core, begin, START, hand_on)
        await self._stood(core, Tell(encode_payload(events)), "observer", hand_on)
        if not self._lost:
            self._told = seq
        self._set_aside_if_lost(core, now_us)

    async def _stood(
        self, core: Scheduler, request: Begin | Tell, hook: str, hand_on: HandOn
    ) -> None:
        found = await self._asked(request, hook, hand_on)
        if isinstance(found, PolicyStatus):
            self._standing, self.trace = found, found.trace or self.trace
            self._stop_for(core, found.fault)

    async def _decide(self, core: Scheduler, now_us: int, hand_on: HandOn) -> None:
        """Have a plan made, and let the scheduler find it."""
        found = await self._asked(Decide(now_us), "plan", hand_on)
        if not isinstance(found, Decided):
            self._set_aside_if_lost(core, now_us)
            return
        self.trace = found.trace or self.trace
        try:
            self._plan, self._targets = plan_of(found.plan), targets_of(found.targets)
        except PlanError as error:
            self._lost = str(error)
            self._set_aside_if_lost(core, now_us)
            return
        self._stop_for(core, self._plan.fault)
        if self._targets is not None:
            self._told += 1  # it has folded them itself, before it planned
        core.decide(now_us)
        self._plan, self._targets = EMPTY_PLAN, None

    async def _asked(
        self, request: Request, hook: str, hand_on: HandOn | None = None
    ) -> Reply | None:
        """Return the reply to a request; None if there is none, and the policy is lost."""
        async with self._turn:
            if self._process is None or self._lost:
                return None
            self._hook, self._since_s = hook, clock.monotonic_s()
            try:
                # Whoever asked may give up; the reply must be taken all the same.
                with anyio.CancelScope(shield=True):
                    return await self._in_time(self._process, request, hook, hand_on)
            except PlanError as error:
                self._lost = f"{hook}: {error}"
            finally:
                self._hook = ""
        return None

    async def _in_time(
        self, process: PolicyProcess, request: Request, hook: str, hand_on: HandOn | None
    ) -> Reply:
        """Return a reply within the time limit, or raise PlanError."""
        limit_s = self.limit_s
        end_s = clock.monotonic_s() + limit_s
        with anyio.move_on_after(limit_s) as sending:
            await process.send(request)
        if not sending.cancelled_caught:
            with anyio.move_on_after(min(PROMPT_S, limit_s)):
                return await process.reply()
        if hand_on is not None:
            await hand_on()
        with anyio.move_on_after(end_s - clock.monotonic_s()):
            return await process.reply()
        raise PlanError(f"it took longer than {self.limit_in_words}")

    def _stop_for(self, core: Scheduler, fault: str) -> None:
        if fault and core.rules.on_fault is OnFault.stop:
            raise PlanError(f"policy {self.name} failed in {fault}")

    def _set_aside_if_lost(self, core: Scheduler, now_us: int) -> None:
        """Record that the policy cannot be asked any more, and end its process."""
        if not self._lost or self.aside:
            return
        self.close()
        self._stop_for(core, self._lost)
        self.aside = self._lost
        core.view.open()
        core.emit(facts.PolicySetAside(now_us, self.name, self.aside, self._told))
        core.view.close()
