"""This machine as a cluster: every attempt under a supervisor that outlives the daemon.

Orders of one job are carried out one after the other, those of different jobs side by side. What
comes of them is read from the supervisors' records (watcher.py). A lost answer is unknown: the
attempt is fenced, and then its records say whether it began before.
"""

import errno
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from shunter.backends.inbox import Inbox, Stamped
from shunter.backends.local.memory import MemoryControl, memory_control
from shunter.backends.local.orders import order_for
from shunter.backends.local.ports import Ports
from shunter.backends.local.samples import Samples
from shunter.backends.local.settings import LocalSettings
from shunter.backends.local.watcher import Watcher
from shunter.backends.node import attempts
from shunter.backends.node.failpoints import failpoint
from shunter.backends.node.heartbeat import write_beat
from shunter.backends.node.messages.attempt_records import started_in
from shunter.backends.node.messages.wire import Found, Order
from shunter.backends.node.output.files import piece_of
from shunter.backends.node.records import folder_of
from shunter.backends.node.remote.pruning import by_age
from shunter.backends.node.verbs import command
from shunter.backends.supervised import environment as environments
from shunter.backends.supervised.orders import Orders
from shunter.backends.supervised.watch import Watch
from shunter.core.effects import (
    Effect,
    Fence,
    Launch,
    Migrate,
    PauseEffect,
    Resume,
    SetAside,
    Stop,
    Terminate,
)
from shunter.core.intake.inputs import Input
from shunter.errors import BackendError
from shunter.events.facts.execution import LaunchFailed
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import JobId, NodeName

FULL_S = 1.0
STRAYS_S = 0.1
PRUNE_S = 600.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


class LocalBackend:
    """Runs attempts on this machine; use it as an async context."""

    def __init__(self, settings: LocalSettings, start_us: int = 0) -> None:
        self._settings = settings
        self._inbox = Inbox(start_us)
        self._newest: dict[JobId, int] = {}
        self._moved_from: dict[JobId, tuple[NodeName, ...]] = {}
        self._tasks: TaskGroup = anyio.create_task_group()
        self._orders = Orders(self._tasks, self._obey)
        self._watcher = Watcher(
            settings.root, settings.term, self._inbox, self._tasks, settings.patrol_s
        )
        self._watches = self._watcher.watches
        self._samples = Samples(self._inbox, settings.sample_s)
        self._ports = Ports(*settings.ports)
        self._launching: dict[tuple[JobId, int], int] = {}
        self._notices = -1
        self.memory = MemoryControl(settings.cgroup or "")

    async def __aenter__(self) -> Self:
        """Take the machine over for this term; a higher one that ruled here refuses it."""
        root, term = self._settings.root, self._settings.term
        ruling = await to_thread.run_sync(attempts.raise_term, root, term)
        if ruling != term:
            raise BackendError(f"term {term} was replaced by {ruling} on this machine")
        self._notices = await to_thread.run_sync(attempts.open_notices, root)
        if self._settings.cgroup is None:
            self.memory = await to_thread.run_sync(partial(memory_control, prepare=True))
            self._settings = replace(self._settings, cgroup=self.memory.group)
        self._beat()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._keep_beating)
        self._tasks.start_soon(self._watcher.listen, self._notices)
        self._tasks.start_soon(self._watcher.run)
        self._tasks.start_soon(self._samples.run, self._watches.values)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the machine; what runs on it runs on."""
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(kind, error, trace)
        finally:
            os.close(self._notices)

    @property
    def instant(self) -> bool:
        """Real processes take time."""
        return False

    @property
    def unreachable(self) -> frozenset[NodeName]:
        """The nodes that do not answer: none of this machine."""
        return frozenset()

    def post(self, stamped: Stamped) -> None:
        """Put a command of somebody into the inbox; it gets its instant there."""
        self._inbox.put(stamped)

    def now_us(self) -> int:
        """Return the instant it is."""
        return self._inbox.now_us()

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Wait for inputs; a live world gathers nothing, it hands over what it sees."""
        return await self._inbox.observe(until_us)

    async def inventory(self, wanted: Collection[tuple[JobId, int]] | None = None) -> list[Found]:
        """Return the records of every attempt on this machine, in one probe; complete.

        With some that are wanted, only of those and of all that still run: years of attempts that
        have ended cost nothing then.
        """
        root = self._settings.root
        if wanted is None:
            return await to_thread.run_sync(attempts.inventory, root)
        keys = [(str(job_id), attempt) for job_id, attempt in wanted]
        return await to_thread.run_sync(attempts.running, root, keys)

    async def store_environments(self, given: Mapping[JobId, Mapping[str, str]]) -> None:
        """Store what only the processes of jobs may see; what was stored before is gone.

        Raises:
            BackendError: it cannot be stored.
        """
        await to_thread.run_sync(environments.store_all, self._settings.root, given)

    async def old_jobs(self, keep_s: float) -> list[JobId]:
        """Return the jobs whose attempts have not changed for so long, ended or not."""
        before_s = time.time() - keep_s
        found = await to_thread.run_sync(by_age, self._settings.root, before_s)
        return [JobId(job) for job in found["old"]]

    async def remove_attempts(self, jobs: Sequence[JobId]) -> None:
        """Remove output and records of jobs that have ended, in a process of its own.

        Raises:
            BackendError: something could not be removed.
        """
        asked = json.dumps({"jobs": jobs}).encode()
        try:
            with anyio.fail_after(PRUNE_S):
                ran = await anyio.run_process(command("prune", self._settings.root), input=asked)
            error = json.loads(ran.stdout)["error"]
        except (OSError, ValueError, subprocess.SubprocessError) as failed:
            raise BackendError(f"attempts cannot be removed: {failed}", retryable=True) from failed
        if error:
            raise BackendError(error, retryable=True)

    async def read_output(
        self, job_id: JobId, attempt: int, rank: int, stream: str, offset: int, size: int
    ) -> tuple[bytes, int | None]:
        """Return a piece of what a rank printed, and how much there is; None: nothing is."""
        path = f"{folder_of(self._settings.root, job_id, attempt)}/{stream}.{rank}"
        return await to_thread.run_sync(piece_of, path, offset, size)

    def recall(self, unreachable: Sequence[NodeName]) -> None:
        """Say which nodes an earlier term found unreachable; this machine never is."""

    def adopt(
        self,
        job_id: JobId,
        attempt: int,
        *,
        started: bool,
        noted: int = 0,
        on: Allocation | None = None,
        is_set_aside: bool = False,
    ) -> None:
        """Watch an attempt of an earlier term, of which some has been told already."""
        folder = folder_of(self._settings.root, job_id, attempt)
        self._newest[job_id] = attempt
        # Its ports, CPUs and GPUs are taken from here on, not only once somebody has looked.
        record = None if is_set_aside else started_in(folder)
        watch = Watch(job_id, attempt, folder, told_start=started, told_facts=noted, started=record)
        watch.is_set_aside = is_set_aside
        self._watcher.add(watch)

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Accept orders; what comes of them is observed."""
        self._orders.give(effects)

    async def _obey(self, effect: Effect) -> None:
        try:
            if isinstance(effect, Launch | Resume):
                await self._launch(effect)
            elif isinstance(effect, SetAside):
                await self._set_aside(effect)
            elif isinstance(effect, Fence) and effect.is_alone:
                self._tasks.start_soon(self._end_stray, effect.job_id, effect.attempt)
            elif isinstance(effect, Fence):
                await self._fence(effect.job_id, effect.attempt)
            else:
                await self._send(effect)
        except OSError as error:
            what = f"{type(effect).__name__} of {effect.job_id}.{effect.attempt}"
            raise BackendError(f"{what} was not recorded: {error}", retryable=True) from error

    async def _launch(self, effect: Launch | Resume) -> None:
        job_id, attempt = effect.job_id, effect.attempt
        if attempt <= self._newest.get(job_id, 0):
            return
        self._newest[job_id] = attempt
        try:
            port = self._ports.take(self._taken_ports())
            order = order_for(effect, self._settings, self._cpu_tenants(), port)
        except BackendError as error:
            self._fail(effect, str(error), retryable=error.retryable)
            return
        self._launching[(job_id, attempt)] = port
        try:
            await self._start_once(effect, order)
        finally:
            del self._launching[(job_id, attempt)]

    async def _start_once(self, effect: Launch | Resume, order: Order) -> None:
        """Start an attempt, or prove that it never will."""
        job_id, attempt = effect.job_id, effect.attempt
        cause = await self._start(order)
        failpoint("supervisor answered")
        folder = folder_of(self._settings.root, job_id, attempt)
        known = await to_thread.run_sync(attempts.probe, folder)
        if known["state"] == "absent" or (cause and known["started"] is None):
            await self._raise_fence(job_id, attempt)
            known = await to_thread.run_sync(attempts.probe, folder)
            if known["started"] is None:  # fenced before it began: it never will
                self._fail(effect, cause or "its supervisor did not start", retryable=True)
                return
        came_from = self._moved_from.pop(job_id, ())
        self._watcher.add(Watch(job_id, attempt, folder, came_from, started=known["started"]))

    async def _start(self, order: Order) -> str:
        """Start a supervisor; return why it is not known to have started, or nothing."""
        try:
            with anyio.fail_after(self._settings.launch_s):
                ran = await anyio.run_process(
                    command("start", self._settings.root),
                    input=json.dumps(order).encode(),
                    check=False,
                )
            answer = json.loads(ran.stdout)
        except TimeoutError:
            return "its supervisor did not answer in time"
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return f"its supervisor cannot be started: {error}"
        return str(answer.get("cause", ""))

    def _fail(self, effect: Launch | Resume, cause: str, *, retryable: bool) -> None:
        job_id, attempt = effect.job_id, effect.attempt
        self._inbox.put(lambda at_us: LaunchFailed(at_us, job_id, attempt, cause, retryable))

    async def _fence(self, job_id: JobId, attempt: int) -> None:
        await self._raise_fence(job_id, attempt)
        watch = self._watches.get(job_id)
        if watch is not None and watch.attempt <= attempt:
            await self._tell(watch, "fence")
        elif watch is None:  # one that nobody knows of any more may still run
            folder = folder_of(self._settings.root, job_id, attempt)
            order = {"do": "fence", "term": self._settings.term}
            await to_thread.run_sync(attempts.send, folder, order)

    async def _end_stray(self, job_id: JobId, attempt: int) -> None:
        """End an attempt that nobody watches, and nothing else; wait until it is over."""
        stray = (self._settings.root, job_id, attempt, self._settings.term)
        while True:
            with suppress(OSError):  # a full disk, or too many open files
                if await to_thread.run_sync(attempts.end_alone, *stray):
                    return
            await anyio.sleep(STRAYS_S)

    async def _set_aside(self, effect: SetAside) -> None:
        watch = self._watches.get(effect.job_id)
        if watch is not None and watch.attempt == effect.attempt:
            watch.is_set_aside = True
            await self._fence(effect.job_id, effect.attempt)
            self._watcher.notice(effect.job_id)

    async def _raise_fence(self, job_id: JobId, attempt: int) -> None:
        """Record a fence; while the disk is full, nothing else can be done for this job."""
        raise_fence = partial(attempts.raise_fence, self._settings.root, job_id, attempt)
        while True:
            try:
                await to_thread.run_sync(raise_fence)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                await anyio.sleep(FULL_S)
            else:
                return

    async def _send(self, effect: Effect) -> None:
        job_id, watch = effect.job_id, self._watches.get(effect.job_id)
        if watch is None:
            if isinstance(effect, Terminate):
                attempt = max(effect.attempt, 1)
                if effect.attempt:  # what was never ordered needs no fence, which costs a sync
                    await self._raise_fence(job_id, attempt)
                self._newest[job_id] = max(attempt, self._newest.get(job_id, 0))
        elif watch.attempt != effect.attempt:
            return
        elif isinstance(effect, Terminate):
            await self._tell(watch, "terminate")
        elif isinstance(effect, PauseEffect):
            await self._tell(watch, "stop" if isinstance(effect, Stop) else "continue")
        else:
            if isinstance(effect, Migrate) and watch.started is not None:
                nodes = [NodeName(node) for node, _ in watch.started["placement"]]
                self._moved_from[job_id] = tuple(nodes)
            await self._tell(watch, "suspend")

    async def _tell(self, watch: Watch, do: str) -> None:
        """Hand an order over; one that nobody takes yet is kept for the next look."""
        order = {"do": do, "term": self._settings.term}
        taken = await to_thread.run_sync(attempts.send, watch.folder, order)
        watch.order = None if taken else order

    async def _keep_beating(self) -> None:
        while True:
            await anyio.sleep(self._settings.beat_s)
            with suppress(OSError):  # a full disk, on which not even a time can be changed
                await to_thread.run_sync(self._beat)

    def _beat(self) -> None:
        write_beat(f"{self._settings.root}/heartbeat")

    def _cpu_tenants(self) -> Counter[int]:
        known = [watch.started for watch in self._watches.values() if watch.started is not None]
        ranks = [rank for started in known for rank in started["ranks"]]
        return Counter(cpu for rank in ranks if rank["pinned"] for cpu in rank["cpus"])

    def _taken_ports(self) -> set[int]:
        known = [watch.started for watch in self._watches.values() if watch.started is not None]
        return {
            *self._launching.values(),
            *(started["port"] for started in known if started["port"]),
        }
