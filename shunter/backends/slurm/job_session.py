"""The session with Slurm's own jobs, as if an agent answered: the same questions, typed the same.

It runs in the daemon, reads the attempts' folders every `look_s` and Slurm's whole queue every
`poll_s`; a missing answer changes nothing. An attempt that Slurm should have and has not is
submitted again: the first of its jobs to make the claim runs it.
"""

import json
import os
import select
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, cast

import anyio
from anyio import TASK_STATUS_IGNORED, to_thread
from anyio.abc import TaskGroup, TaskStatus

from shunter import clock
from shunter.backends.node import (
    OUTPUT,
    PROTOCOL,
    READ_BYTES_MAX,
    TOLD_OF_JOB,
    Command,
    Known,
    Order,
    Reports,
    WrongMessageError,
    a_job,
    boot_id,
    checked,
    claimed_by,
    count_in,
    create_private,
    folder_of,
    get,
    number_of,
    numbers_in,
    own_folder,
    piece_of,
    put,
    raise_fence,
    raise_term,
    status_in,
    withdraw,
    write_beat,
)
from shunter.backends.slurm.answers import QueuedJob, end_in_words
from shunter.backends.slurm.commands import Slurm, reason_in_words, submit_limit_in
from shunter.backends.slurm.job_attempts import (
    ACCOUNTING_DEADLINE_S,
    LIMIT_SIGNAL,
    Accounting,
    JobAttempt,
    Key,
    Patience,
    QueueView,
    attempt_job_name,
    job_options,
    job_script,
    queue_view,
)
from shunter.backends.slurm.node_service import NodeService
from shunter.backends.slurm.settings import SlurmSettings, own_user
from shunter.errors import BackendError, SlurmRefusedError, SlurmUnknownError
from shunter.events import NodeName

# Orders to Slurm. A job to be ended is cancelled at every look until the queue says it is over, so
# a controller that is away or forgets changes nothing.

AT_ONCE = 4
"""Commands at once: the controller answers others in between."""
FORGOTTEN_S = 600.0
"""For so long a submission whose answer was lost may still come to be."""


class Submissions:
    """Orders to Slurm on their way."""

    def __init__(
        self,
        slurm: Slurm,
        cluster_id: str,
        tasks: TaskGroup,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._slurm = slurm
        self._cluster_id = cluster_id
        self._tasks = tasks
        self._slots = anyio.Semaphore(AT_ONCE)
        self._under_way: set[Key] = set()
        self._end_from_s: dict[Key, float] = {}
        self._ending: set[int] = set()
        self._queue = QueueView()
        self._to_suspend: set[Key] = set()
        self._suspended: set[Key] = set()
        self._releasing: set[Key] = set()
        self._tell = tell
        self._told = ""

    def is_under_way(self, key: Key) -> bool:
        """Say whether Slurm is being asked to run an attempt."""
        return key in self._under_way

    async def submit(self, key: Key, script: str, options: list[str]) -> str:
        """Have an attempt run; return why Slurm refuses it, if it does.

        Whether it has it, if Slurm does not answer, its queue will tell.
        """
        self._under_way.add(key)
        try:
            async with self._slots:
                await self._slurm.submit(script, options)
        except SlurmRefusedError as error:
            return str(error)
        except SlurmUnknownError:
            return ""
        finally:
            self._under_way.discard(key)
        return ""

    def wake(self, key: Key) -> None:
        """Have the program of an attempt look at its orders now, and not later.

        One that is suspended in Slurm goes on there first, to do what it is ordered.
        """
        self._to_suspend.discard(key)
        jobs = self._alive(key)
        if key in self._suspended or any(job.state == "SUSPENDED" for job in jobs):
            self._tasks.start_soon(self._release, key)
        for job in jobs:
            if job.state == "RUNNING" and key not in self._suspended:
                self._tasks.start_soon(self._cancel, key, job.id, "USR1")

    def warn(self, key: Key) -> None:
        """Have an attempt save and leave, as Slurm does before its time limit."""
        for job in self._alive(key):
            self._tasks.start_soon(self._cancel, key, job.id, LIMIT_SIGNAL.removeprefix("SIG"))

    def suspend(self, key: Key) -> None:
        """Have Slurm suspend an attempt, once it has stopped by itself."""
        if key not in self._suspended:
            self.wake(key)
        self._to_suspend.add(key)

    def note_stopped(self, stopped: Collection[Key]) -> None:
        """Suspend those in Slurm that are to be and have stopped by now."""
        for key in sorted(self._to_suspend.intersection(stopped) - self._suspended):
            if any(job.state == "RUNNING" for job in self._alive(key)):
                self._suspended.add(key)
                self._tasks.start_soon(self._suspend, key)

    def end(self, key: Key, after_s: float = 0.0) -> None:
        """Have Slurm end all of an attempt that is not over after some seconds."""
        from_s = clock.monotonic_s() + after_s
        self._end_from_s[key] = min(from_s, self._end_from_s.get(key, from_s))
        self._end_if_due(key)

    def take(self, queue: QueueView) -> None:
        """Take in an answer of squeue; end what is there and should not be."""
        self._queue = queue
        self._suspended = {key for key in self._suspended if queue.alive(key)}
        self._to_suspend &= self._suspended | set(queue.jobs)
        for key in sorted(self._releasing):
            if any(job.state == "SUSPENDED" for job in queue.alive(key)):
                self._tasks.start_soon(self._release, key)
            else:
                self._releasing.discard(key)
        for key in [key for key in self._end_from_s if not queue.alive(key)]:
            if clock.monotonic_s() > self._end_from_s[key] + FORGOTTEN_S:
                del self._end_from_s[key]
        for key in self._end_from_s:
            self._end_if_due(key)

    def _end_if_due(self, key: Key) -> None:
        if clock.monotonic_s() >= self._end_from_s[key]:
            for job in self._alive(key):
                if job.id not in self._ending:
                    self._ending.add(job.id)
                    self._tasks.start_soon(self._cancel, key, job.id, "")

    def _alive(self, key: Key) -> tuple[QueuedJob, ...]:
        return self._queue.alive(key)

    async def _suspend(self, key: Key) -> None:
        async with self._slots:
            try:
                await self._slurm.suspend([job.id for job in self._alive(key)])
            except SlurmRefusedError as error:
                self._to_suspend.discard(key)
                self._suspended.discard(key)
                self._refuse(str(error))
                return
            except SlurmUnknownError:
                if key in self._to_suspend:
                    self._suspended.discard(key)  # it is tried again
        if key not in self._to_suspend:  # it was ordered something else meanwhile
            await self._release(key)

    def _refuse(self, cause: str) -> None:
        """Say, unless it was said last, that jobs are stopped by signals only."""
        if cause != self._told:
            self._told = cause
            self._tell(
                f"jobs that stand still keep their CPUs in Slurm ({cause}): take out "
                "backend.slurm.stops_by, or ask its administrator for the rights of an operator"
            )

    async def _release(self, key: Key) -> None:
        """Have Slurm let an attempt go on; what it does not answer is asked again."""
        self._releasing.add(key)
        async with self._slots:
            with suppress(SlurmRefusedError, SlurmUnknownError):
                await self._slurm.resume([job.id for job in self._alive(key)])
                self._suspended.discard(key)
        for job in self._alive(key):
            await self._cancel(key, job.id, "USR1")

    async def _cancel(self, key: Key, number: int, signal: str) -> None:
        name = attempt_job_name(self._cluster_id, *key)
        async with self._slots:
            with suppress(SlurmUnknownError):
                await self._slurm.cancel(
                    [number], name=name, signal=signal, batch_only=bool(signal)
                )
        if not signal:
            self._ending.discard(number)


# The records of batch jobs on the shared folder: file servers are slow, so in a thread, one call
# at a time.

Question = Mapping[str, Any]
Answer = Mapping[str, object]


class JobRecords:
    """What lies below a root, and which of it is watched."""

    def __init__(self, root: str, queue: Callable[[], QueueView], patience: Patience) -> None:
        self.root = root
        self.watched: set[Key] = set()
        self._queue = queue
        self._patience = patience
        self._reports = Reports(select.poll(), self._attempt_in)
        self._term = 0
        self._fenced: set[Key] = set()

    def claim(self, question: Question) -> Answer:
        """Take the folder for a term, unless a later one has it."""
        self._term = raise_term(self.root, question["term"])
        if self._term != question["term"]:
            cause = f"term {question['term']} was replaced by {self._term}"
            return {"refused": "replaced", "cause": cause}
        self._reports.begin(self.root)
        self.beat(question)
        return {"root": self.root, "term": self._term}

    def beat(self, question: Question) -> Answer:
        """Show that the scheduler is alive."""
        write_beat(f"{self.root}/heartbeat", question["asked_ns"])
        return {}

    def look(self, question: Question) -> Answer:
        """Beat; return what of attempts is new, or is asked for again."""
        self.beat(question)
        for job, attempt in question["anew"]:
            self.of((job, attempt)).told = None
        keys = []
        for job, attempt, read, durable in question["watched"]:
            known = self.of((job, attempt))
            known.read = read
            with suppress(OSError):  # a folder that is gone; it is said again at the next look
                known.acknowledge(durable, self._term)
            keys.append((job, attempt))
        is_all = question["is_all"]
        if is_all:
            self.watched = set(keys)
            self._reports.forget_all_but(keys)
        else:
            self.watched |= set(keys)
        samples = self._reports.samples(keys) if is_all else []
        return {"changed": self._reports.news(keys), "samples": samples, "gpus": None}

    def news(self) -> list[Known]:
        """Return what has changed of the attempts that are watched."""
        return self._reports.news(sorted(self.watched))

    def of(self, key: Key) -> JobAttempt:
        """Return what is known of an attempt."""
        return cast("JobAttempt", self._reports.of(*key))

    def known(self, key: Key) -> Known:
        """Return all that is known of an attempt, and note that it was returned."""
        return self._reports.known(*key)

    def prepare(self, order: Mapping[str, Any]) -> str:
        """Store the order of an attempt; return why it may not begin, if so."""
        job, attempt = order["job"], order["attempt"]
        folder = folder_of(self.root, job, attempt)
        fence = count_in(f"{self.root}/jobs/{job}/fence", "attempt")
        if attempt <= fence:
            return f"attempt {attempt} is fenced, as is all up to {fence}"
        for each in (self.root, f"{self.root}/jobs", f"{self.root}/jobs/{job}", folder):
            own_folder(each)
        create_private(f"{folder}/slurm.out").close()  # Slurm's own would be readable to all
        put(f"{folder}/order", order)
        return ""

    def is_begun(self, key: Key) -> bool:
        """Say whether an attempt was asked for already, by us or in an earlier term."""
        folder = folder_of(self.root, *key)
        return get(f"{folder}/order") is not None or bool(claimed_by(folder))

    def order_of(self, key: Key) -> Order | None:
        """Return what was asked for; None if it is gone."""
        found = get(f"{folder_of(self.root, *key)}/order")
        try:
            return None if found is None else Order.decoded(found)
        except WrongMessageError:
            return None

    def withdraw(self, key: Key, cause: str) -> bool:
        """Let an attempt never begin; False if it has."""
        folder = folder_of(self.root, *key)
        if self.of(key).has_begun():
            return False
        own_folder(folder)  # which may be gone
        is_withdrawn = withdraw(folder)
        if cause and is_withdrawn:  # not before: who begins it would be taken for refused
            put(f"{folder}/refusal", {"cause": cause})
        return is_withdrawn

    def fence(self, job: str, last: int) -> list[Known]:
        """Let no attempt up to one begin, end those that have; return them."""
        raise_fence(self.root, job, last)
        keys = [(job, number) for number in numbers_in(f"{self.root}/jobs/{job}")]
        fenced = []
        for key in keys:
            if key[1] <= last:
                self.order(key, "fence")
                fenced.append(self.known(key))
        return fenced

    def order(self, key: Key, do: str) -> bool:
        """Order something of an attempt; return whether it never begins for that.

        One that has not begun is not to begin, whatever the order, but to stop or continue.
        """
        is_to_leave = do not in ("stop", "continue")
        if is_to_leave and self.withdraw(key, ""):
            return True
        attempt = self.of(key)
        if not attempt.has_begun():
            return True
        if key not in self._fenced and status_in(attempt.folder) is None:
            own_folder(attempt.folder)
            attempt.send(Command(do=do, term=self._term))
            self._fenced |= {key} if do == "fence" else set()  # said once, it is not unsaid
        return False

    def give_up(self) -> None:
        """Order those to end that Slurm has given up and that may run all the same."""
        for key in sorted(self.watched - self._fenced):
            if self.of(key).may_live_on():
                with suppress(OSError):
                    self.order(key, "fence")

    def those(self, chosen: Callable[[JobAttempt], bool]) -> list[Key]:
        """Return the attempts that are watched of which something holds."""
        return [key for key in sorted(self.watched) if chosen(self.of(key))]

    def waiting_for(self, nodes: Mapping[NodeName, str]) -> list[tuple[Key, str]]:
        """Return the attempts that wait in Slurm for one of some nodes, with why."""
        queue = self._queue()
        found = []
        for key in sorted(self.watched if nodes else ()):
            if not queue.is_waiting(key) or claimed_by(self.of(key).folder):
                continue
            order = self.order_of(key)
            placement = () if order is None else order.placement
            causes = [nodes[NodeName(node)] for node, _ in placement if node in nodes]
            found += [(key, cause) for cause in causes[:1]]
        return found

    def inventory(self, question: Question) -> Answer:
        """Return the newest attempts of one job, or some and all that may run, or all."""
        job, wanted, queue = question.get("job"), question.get("wanted"), self._queue()
        if job is not None:
            newest = numbers_in(f"{self.root}/jobs/{job}")[-TOLD_OF_JOB:]
            keys = {(job, number) for number in newest}
        elif wanted is not None and queue != QueueView():
            alive = {key for key in queue.jobs if queue.alive(key)}
            keys = {(name, attempt) for name, attempt in wanted} | alive
        else:
            keys = set(self._all())
        return {"attempts": [self._found(key) for key in sorted(keys)]}

    def read(self, question: Question) -> Answer:
        """Return a piece of what a rank printed, and how much there is."""
        if not OUTPUT.fullmatch(question["name"]):
            raise ValueError(f"no output is named {question['name']!r}")
        path = f"{folder_of(self.root, question['job'], question['attempt'])}/{question['name']}"
        data, size = piece_of(path, question["offset"], min(question["bytes"], READ_BYTES_MAX))
        return {"data": data.decode("latin-1"), "size": size}

    def port(self, question: Question) -> Answer:
        """Return the first port of some that no attempt has."""
        taken = set(self._reports.ports.values())
        return {"port": next((port for port in question["ports"] if port not in taken), None)}

    def _all(self) -> Iterable[Key]:
        for path in sorted(Path(self.root, "jobs").glob("*/*")):
            attempt = number_of(path.name)
            if attempt is not None and checked(path.parent.name, a_job) is not None:
                yield path.parent.name, attempt

    def _found(self, key: Key) -> Known:
        found, _ = self._attempt_in(folder_of(self.root, *key)).look()
        if not self.is_begun(key):
            found.state = "absent"
        return found

    def _attempt_in(self, folder: str) -> JobAttempt:
        job, _, attempt = folder.removeprefix(f"{self.root}/jobs/").partition("/")
        return JobAttempt(folder, (job, int(attempt)), self._queue, self._patience)


T = TypeVar("T")
Words = TypeVarTuple("Words")
OVER = ("ended", "lost")
END_S = 15.0
"""After an order to end at once, until Slurm is asked to end it as well."""
AGAIN_S = 60.0
"""For so long, in seconds, what Slurm has forgotten is submitted again although it is refused."""


@dataclass(slots=True)
class JobCluster:
    """A cluster whose attempts are jobs of Slurm; it outlives a session.

    Args:
        settings: of the cluster.
        slurm: its commands.
        service: what is known of its nodes.
        seen: takes each answer of squeue.
        notice: takes what people should know.
        held_back: why Slurm takes an attempt only later.
    """

    settings: SlurmSettings
    slurm: Slurm
    service: NodeService
    seen: Callable[[QueueView], None]
    notice: Callable[[str], None]
    held_back: dict[Key, str] = field(default_factory=dict)


class JobSession:
    """Answers questions about attempts that are batch jobs, as an agent does.

    Args:
        cluster: whose attempts.
        agent: the path of the agent's program on the shared folder.
        nonce: what it greets with.
    """

    def __init__(self, cluster: JobCluster, agent: str, nonce: str) -> None:
        self._cluster, self._settings, self._slurm = cluster, cluster.settings, cluster.slurm
        settings, slurm = cluster.settings, cluster.slurm
        self._agent = agent
        self._said, self._came, self._left = bytearray(), anyio.Event(), b""
        self._is_over, self._complaint = False, ""
        self._queue = QueueView()
        self._answered = anyio.Event()
        patience = Patience(settings.settle_s, settings.heartbeat_deadline_s + settings.margin_s)
        self._records = JobRecords(settings.root, lambda: self._queue, patience)
        self._tasks: TaskGroup = anyio.create_task_group()
        self._submissions = Submissions(slurm, settings.cluster_id, self._tasks, cluster.notice)
        accounting_s = min(ACCOUNTING_DEADLINE_S, settings.command_s)
        self._accounting = Accounting(
            Slurm(deadline_s=accounting_s, conf=settings.conf), settings.cluster_id, own_user()
        )
        self._lock = anyio.Lock()
        self._greet(nonce)

    def _greet(self, nonce: str) -> None:
        """Say who is there, as an agent does."""
        self._said += f"\n{nonce} ".encode()
        self._tell(
            {
                "protocol": PROTOCOL,
                "base": self._settings.root,
                "boot": boot_id(),
                "wall_s": clock.wall_s(),
                "python": list(sys.version_info[:3]),
                "uid": os.geteuid(),
            }
        )

    async def run(self, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Look at the records and at the queue until the shared folder fails."""
        try:
            async with self._tasks:
                self._tasks.start_soon(self._watch_queue)
                task_status.started()
                while True:
                    await anyio.sleep(self._settings.look_s)
                    if changed := await self._in_thread(self._records.news):
                        self._tell({"changed": changed})
        except* OSError as errors:
            cause: BaseException = errors
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
            self._complaint = f"the shared folder cannot be used: {cause}"
        await self.end_input()

    async def read(self, most: int) -> bytes:
        """Return what it has said; nothing once it has ended."""
        while not self._said and not self._is_over:
            self._came = anyio.Event()
            await self._came.wait()
        piece = bytes(self._said[:most])
        del self._said[:most]
        return piece

    async def write(self, content: bytes) -> None:
        """Have questions answered, each at the same time as others.

        Raises:
            OSError: it has ended.
        """
        if self._is_over:
            raise BrokenPipeError("the session has ended")
        *lines, self._left = (self._left + content).split(b"\n")
        for line in lines:
            self._tasks.start_soon(self._answer, json.loads(line))

    async def end_input(self) -> None:
        """End it: nothing more is asked."""
        self._is_over = True
        self._came.set()

    async def complaint(self) -> bytes:
        """Return why it has ended."""
        return self._complaint.encode()

    async def status(self) -> int | None:
        """Return that it has no exit status."""
        return None

    async def aclose(self) -> None:
        """End it."""
        await self.end_input()

    async def _answer(self, question: Question) -> None:
        try:
            found: Answer = await _ANSWERS[question["do"]](self, question)
        except (OSError, KeyError, ValueError, BackendError) as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        self._tell({"id": question["id"], **found})

    def _tell(self, record: Mapping[str, object]) -> None:
        clocks = {"now_ns": clock.monotonic_ns(), "up_ns": clock.uptime_ns()}
        self._said += json.dumps({**clocks, **record}).encode() + b"\n"
        self._came.set()

    async def records(self, question: Question) -> Answer:
        """Answer what the records alone say."""
        work: Callable[[Question], Answer] = getattr(self._records, question["do"])
        return await self._in_thread(work, question)

    async def inventory(self, question: Question) -> Answer:
        """Return attempts, once the queue was seen or has not answered in time."""
        with anyio.move_on_after(self._settings.call_s / 2):  # it says more than the records
            await self._answered.wait()
        return await self.records(question)

    async def start(self, question: Question) -> Answer:
        """Have Slurm run an attempt; it has begun once it is claimed."""
        given = question["order"]
        key = str(given["job"]), int(given["attempt"])
        if clock.uptime_ns() > question["before_ns"]:
            return {"answer": "late", "cause": "the order came too late"}
        is_begun = await self._in_thread(self._records.is_begun, key)
        if not is_begun:
            cause = await self._in_thread(self._records.prepare, given)
            if cause:
                return {"answer": "refused", "cause": cause}
            order = Order.decoded(given)
            refusal = await self._submitted(order)
            if refusal:
                return {"answer": "refused", "cause": refusal}
        known = await self._in_thread(self._records.known, key)
        return {"answer": "known", "known": known}

    async def _submitted(self, order: Order) -> str:
        """Ask Slurm to run an attempt, and wait for its answer, but not for long.

        An answer that takes longer comes when it comes: the records tell then.
        """
        done, refusal = anyio.Event(), ""

        async def submit() -> None:
            nonlocal refusal
            refusal = await self._submit(order)
            done.set()

        self._tasks.start_soon(submit)
        with anyio.move_on_after(self._settings.launch_s / 2):
            await done.wait()
        return refusal

    async def _submit(self, order: Order) -> str:
        """Ask Slurm to run an attempt; return why it never will, if that is so."""
        settings, key = self._settings, (order.job, order.attempt)
        folder = folder_of(settings.root, *key)
        script = job_script(settings.python, self._agent, settings.root, *key)
        longest_s = self._cluster.service.longest_s([NodeName(node) for node, _ in order.placement])
        options = job_options(settings, order, folder, longest_s)
        refusal = await self._submissions.submit(key, script, options)
        self._records.of(key).asked_s = clock.monotonic_s()
        self._cluster.held_back.pop(key, None)
        if not refusal:
            return ""
        if limit := submit_limit_in(refusal):  # it is submitted again, as what Slurm has forgotten
            self._cluster.held_back[key] = f"Slurm takes it only later ({reason_in_words(limit)})"
            return ""
        missed_since_s = self._records.of(key).missed_since_s
        if missed_since_s is not None and clock.monotonic_s() - missed_since_s < AGAIN_S:
            return ""  # a controller that has just come back knows few of its nodes
        is_withdrawn = await self._in_thread(self._records.withdraw, key, refusal)
        return refusal if is_withdrawn else ""

    async def fence(self, question: Question) -> Answer:
        """Let no attempt up to one begin, and end those that have."""
        job, last = question["job"], question["attempt"]
        fenced = await self._in_thread(self._records.fence, job, last)
        for known in fenced:
            if known.state not in OVER:
                self._end((job, known.attempt), has_begun=known.state != "absent")
        return {"fenced": [known for known in fenced if known.attempt == last]}

    async def set_aside(self, question: Question) -> Answer:
        """End an attempt whose records are not read; say whether it is over."""
        key = question["job"], question["attempt"]
        await self._in_thread(self._records.order, key, "fence")
        known = await self._in_thread(self._records.known, key)
        is_over = known.state in (*OVER, "absent")
        if known.state not in OVER:
            self._end(key, has_begun=not is_over)
        return {"is_over": is_over}

    async def send(self, question: Question) -> Answer:
        """Hand an order on; what has not begun by then never does."""
        key, do = (question["job"], question["attempt"]), question["order"]["do"]
        if await self._in_thread(self._records.order, key, do):
            self._cluster.held_back.pop(key, None)
            self._submissions.end(key)
        elif do == "stop" and self._settings.is_suspended_in_slurm:
            self._submissions.suspend(key)
        else:
            self._records.of(key).is_stopped = False
            self._submissions.wake(key)
        return {"taken": True}

    async def switch(self, question: Question) -> Answer:
        """Refuse to have attempts take turns: Slurm gives no GPU to two jobs."""
        raise BackendError("attempts that are jobs of Slurm have GPUs of their own: no turns")

    def _end(self, key: Key, *, has_begun: bool) -> None:
        """Have an attempt that was ordered to end leave Slurm as well."""
        self._submissions.wake(key)
        self._submissions.end(key, END_S if has_begun else 0.0)

    async def _watch_queue(self) -> None:
        """Ask for the queue again and again, and act on it; others use the cluster too."""
        settings = self._settings
        while True:
            with suppress(SlurmUnknownError):
                view = await queue_view(self._slurm, settings.cluster_id)
                self._queue = replace(view, past=self._accounting.ends)
                self._answered.set()
                self._cluster.seen(view)
                self._submissions.take(view)
                for key in view.being_preempted():
                    if not self._records.of(key).is_preempted:
                        self._records.of(key).is_preempted = True
                        self._submissions.warn(key)
                await self._act()
            await anyio.sleep(settings.poll_s)

    async def _act(self) -> None:
        if await self._accounting.ask(
            await self._in_thread(self._records.those, JobAttempt.is_forgotten)
        ):
            self._queue = replace(self._queue, past=self._accounting.ends)
        await self._in_thread(self._records.give_up)
        for key in await self._in_thread(self._records.those, JobAttempt.is_missed):
            if not self._submissions.is_under_way(key):
                self._tasks.start_soon(self._submit_again, key)
        self._submissions.note_stopped(
            await self._in_thread(self._records.those, lambda each: each.is_stopped)
        )
        await self._withdraw_from(self._cluster.service.out_of_service(clock.wall_s()) or {})

    async def _withdraw_from(self, out: Mapping[NodeName, str]) -> None:
        """Take attempts out of Slurm's queue that wait for nodes out of service."""
        for key, cause in await self._in_thread(self._records.waiting_for, out):
            if await self._in_thread(self._records.withdraw, key, cause):
                self._submissions.end(key)

    async def _submit_again(self, key: Key) -> None:
        """Have an attempt run that Slurm has forgotten, unless it was cancelled there."""
        ended_as = self._queue.ended_as(key)
        order = await self._in_thread(self._records.order_of, key)
        if ended_as or order is None:
            cause = "its order is gone"
            if ended_as:
                cause = f"before it began: {end_in_words(ended_as, self._queue.limit_s(key))}"
            await self._in_thread(self._records.withdraw, key, cause)
        else:
            await self._submit(order)

    async def _in_thread(self, work: Callable[[*Words], T], *words: *Words) -> T:
        """Do what waits for the file server, one thing at a time."""
        async with self._lock:
            return await to_thread.run_sync(work, *words, abandon_on_cancel=True)


_ANSWERS = {
    "claim": JobSession.records,
    "beat": JobSession.records,
    "look": JobSession.records,
    "inventory": JobSession.inventory,
    "read": JobSession.records,
    "port": JobSession.records,
    "start": JobSession.start,
    "fence": JobSession.fence,
    "set_aside": JobSession.set_aside,
    "send": JobSession.send,
    "switch": JobSession.switch,
}
