"""A real server as what a job is measured on: its command runs there, held to its CPUs.

Each measurement is an attempt of its own on a live backend: an agent launches it under a supervisor
and holds it to its shares, as on a cluster. The job reports its mini-batches as it does there (the
SDK, or what it prints); once it has warmed up, its rate is measured for some time. Then the attempt
is ended and its records are removed.
"""

import asyncio
import fcntl
import os
import secrets
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from shunter import clock
from shunter.backends.live import LocalBackend, LocalNode, LocalSettings, SupervisedBackend
from shunter.backends.node import alive_below, folder_of, held_to, started_in
from shunter.config import LoadedConfig
from shunter.core import AttemptExited, Input, Launch, Terminate
from shunter.counting import counted
from shunter.errors import BackendError, ConfigError, UsageError, extra_hint, first_error
from shunter.events import Allocation, ConfigurationSet, JobId, JobSpec, NodeName, Share, facts
from shunter.ops.profiling import JobFile, Point
from shunter.workloads import Profile

if TYPE_CHECKING:
    from shunter.backends.live import SshSettings


# A sample comes about once a second and holds the mean seconds of the last mini-batches: those
# between two samples with different steps have the mean of the later one.


class BatchRate:
    """The mean over a span of time, which begins some time after the first sample.

    Attributes:
        is_new: whether the last sample told of mini-batches that none before it did.
    """

    def __init__(self, warm_up_s: float, time_s: float) -> None:
        self.is_new = False
        self._warm_up_s, self._time_s = warm_up_s, time_s
        self._first_s: float | None = None
        self._begun_s: float | None = None
        self._step: int | None = None
        self._at_s = 0.0
        self._batches, self._seconds = 0, 0.0

    @property
    def is_measured(self) -> bool:
        """Whether mini-batches were told for the whole span."""
        if self._begun_s is None or not self._batches:
            return False
        return self._at_s - self._begun_s >= self._time_s

    @property
    def batch_s(self) -> float:
        """Mean seconds of a mini-batch; only once `is_measured`."""
        return self._seconds / self._batches

    def take(self, at_s: float, step: int | None, batch_s: float | None) -> None:
        """Take a sample.

        Args:
            at_s: its instant, in seconds of any clock.
            step: mini-batches done so far; None: the job told none yet.
            batch_s: the mean seconds of the last ones; None as well.
        """
        self.is_new = step is not None and batch_s is not None and step != self._step
        if not self.is_new:
            return
        assert step is not None, "it is new"
        assert batch_s is not None, "it is new"
        if self._first_s is None:
            self._first_s = at_s
        if self._begun_s is not None and self._step is not None:
            self._batches += max(0, step - self._step)
            self._seconds += max(0, step - self._step) * batch_s
        elif at_s - self._first_s >= self._warm_up_s:
            self._begun_s = at_s
        self._step, self._at_s = step, at_s


_MILLI = 1000
_LOOK_US, _END_S, _NOTICE_S = 1_000_000, 30.0, 5.0
_OVER = (AttemptExited, facts.AttemptLost, facts.LaunchFailed)
_OUTPUT_LINES: Final = 5
_OUTPUT_BYTES: Final = 4000
CHECKED_PERCENTS: Final = (50, 20)
"""The parts of the dataset in memory at which the model is checked."""


class Server(Protocol):
    """A server on which a job can be measured."""

    @property
    def name(self) -> NodeName:
        """What its backend calls it."""

    @property
    def is_here(self) -> bool:
        """Whether it is this machine."""

    def backend(self, root: str) -> SupervisedBackend:
        """Return a backend of it alone, not yet at work, with its files in a folder.

        It holds jobs to their shares, and tells every sample.
        """


class LiveMachine:
    """Runs a job on a server.

    Raises:
        ConfigError: the file has no command.
    """

    evidence = "live"

    def __init__(self, file: JobFile, server: Server) -> None:
        self._file, self._job, self._measuring = file, file.job, file.job.measuring
        self._server = server
        self._began_s = clock.monotonic_s()
        self._attempt = 0
        self._job_id = JobId(f"profile-{secrets.token_hex(4)}")  # nobody has left its records there
        self._notes: list[str] = []
        if not self._job.command:
            what = 'missing; expected the program that trains: ["python", "train.py"]'
            raise file.wrong("command", what=what)

    @property
    def now_us(self) -> int:
        """The time since this machine was made ready."""
        return round((clock.monotonic_s() - self._began_s) * 1e6)

    @property
    def notes(self) -> tuple[str, ...]:
        """What held the job to its shares, and what could not be measured."""
        return tuple(dict.fromkeys(self._notes))

    def epochs_s(self, points: Sequence[Point]) -> list[float | None]:
        """Return the seconds of an epoch at each point; None where it cannot run.

        Raises:
            BackendError: the job ended, or told no mini-batch, with all memory there is; or the
                server does not answer.
        """
        return [self._measured(point) for point in points]

    def checks(self, profile: Profile) -> list[Point]:
        """Return cells with less memory, with as many CPUs as the job can use."""
        why = ""
        if not self._server.is_here:
            why = f"what {self._server.name} holds of files in memory cannot be dropped from here"
        elif not self._measuring.dataset:
            why = (
                "measuring.dataset names no files, and what the machine holds of them from the "
                "runs before is no part of the job's memory"
            )
        if why:
            self._notes.append(f"no cell with less memory was measured: {why}")
            return []
        gpus, demand = profile.gpus, profile.demand
        cpus = demand.cpus_milli * gpus // _MILLI
        return [Point(cpus, profile.memory_mb(percent) * gpus) for percent in CHECKED_PERCENTS]

    def _measured(self, point: Point) -> float | None:
        """Return the seconds of an epoch; where it fails with less memory, note it."""
        try:
            return asyncio.run(self._epoch_s(point))
        except (ExceptionGroup, BackendError) as errors:
            error = first_error(errors)
            if not point.memory_mb or not isinstance(error, BackendError):
                raise error from errors
            amount = f"{counted(point.cpus, 'CPU')} and {point.memory_mb / 1000:g} GB"
            self._notes.append(f"nothing was measured with {amount}: {error}")
            return None

    async def _epoch_s(self, point: Point) -> float:
        """Return the seconds of an epoch, or raise BackendError."""
        if point.memory_mb:
            paths = [self._file.folder / each for each in self._measuring.dataset]
            await anyio.to_thread.run_sync(drop_from_cache, paths)
        self._attempt += 1
        with measuring_folder() as root:
            async with self._server.backend(root) as backend:
                if (cause := backend.causes.get(self._server.name)) is not None:
                    raise BackendError(f"{self._server.name} does not answer: {cause}")
                await self._remove_left(backend)
                async with self._running(backend, point) as news:
                    folder = folder_of(root, self._job_id, self._attempt)
                    if point.memory_mb and not _is_memory_held(folder):
                        raise BackendError("no control group holds its memory here")
                    return self._job.steps * await self._batch_s(backend, news)

    async def _remove_left(self, backend: SupervisedBackend) -> None:
        """Remove once the records of jobs that a killed profile has left on a server.

        What runs is left alone, as are records that cannot be removed: they are in nobody's way.
        """
        if self._attempt > 1 or self._server.is_here:
            return
        with suppress(BackendError):
            left = [JobId(found["job"]) for found in await backend.inventory()]
            await backend.remove_attempts(list(dict.fromkeys(left)))

    @asynccontextmanager
    async def _running(self, backend: SupervisedBackend, point: Point) -> AsyncIterator["_News"]:
        """Run the job at a point, and end it; yield what is seen of it meanwhile."""
        job, news = self._job, _News(backend)
        mask, cpus_milli = (1 << job.gpus) - 1, point.cpus * _MILLI
        share = Share(self._server.name, mask, cpus_milli, point.memory_mb)
        spec = JobSpec(
            job.gpus,
            model=job.model,
            command=job.command,
            directory=str(self._file.folder.resolve()),
        )
        try:
            launch = Launch(self._job_id, self._attempt, Allocation((share,)), spec)
            await backend.perform([launch], backend.now_us())
            await news.started()
            await self._note_shares(backend)
            yield news
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_END_S):
                await backend.perform([Terminate(self._job_id, self._attempt)], backend.now_us())
                await news.over()
                await backend.remove_attempts([self._job_id])

    async def _note_shares(self, backend: SupervisedBackend) -> None:
        """Note what holds the job, which the backend tells once it has its agent."""
        with anyio.move_on_after(0 if self._notes else _NOTICE_S):
            self._notes.append(await backend.share_notice())

    async def _batch_s(self, backend: SupervisedBackend, news: "_News") -> float:
        """Return the mean seconds of a mini-batch, or raise BackendError."""
        measuring = self._measuring
        rate = BatchRate(measuring.warm_up / 1e6, measuring.time / 1e6)
        give_up_s = clock.monotonic_s() + measuring.give_up / 1e6
        while not rate.is_measured:
            seen = await news.next()
            if isinstance(seen, AttemptExited | facts.AttemptLost):
                why = f"{_ending(seen)}; {await self._output(backend)}"
                raise BackendError(f"the job ended before its rate was measured: {why}")
            if isinstance(seen, facts.ProfileSampled):
                rate.take(seen.at_us / 1e6, seen.step, seen.batch_s)
                if rate.is_new:
                    give_up_s = clock.monotonic_s() + measuring.give_up / 1e6
            if clock.monotonic_s() > give_up_s:
                raise BackendError(
                    f"the job told no mini-batch for {measuring.give_up / 1e6:g} s "
                    f"(measuring.give_up): it tells them by the SDK, or prints its progress; "
                    f"{await self._output(backend)}"
                )
        return rate.batch_s

    async def _output(self, backend: SupervisedBackend) -> str:
        """Return the end of what the job printed, in one line."""
        for stream in ("stderr", "stdout"):
            _, size = await backend.read_output(self._job_id, self._attempt, 0, stream, 0, 1)
            start = max(0, (size or 0) - _OUTPUT_BYTES)
            text, _ = await backend.read_output(
                self._job_id, self._attempt, 0, stream, start, _OUTPUT_BYTES
            )
            if said := last_lines(text):
                return f"it printed at the end: {said}"
        return "it printed nothing"


def last_lines(output: bytes) -> str:
    """Return the last lines of what a job printed, in one line of plain letters.

    What would move a cursor or be obeyed by a terminal, and what is no text, stands there by its
    number.
    """
    said = output.decode("utf-8", errors="backslashreplace").splitlines()
    lines = [line.strip() for line in said if line.strip()]
    letters = " | ".join(lines[-_OUTPUT_LINES:])
    if not letters.isprintable():
        letters = "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode()
            for letter in letters
        )
    return letters[-_OUTPUT_BYTES:]  # each byte of a binary file takes four


def drop_from_cache(paths: Iterable[Path]) -> None:
    """Let the machine forget what it holds of files, and of all files of folders.

    What an earlier run has read stays in memory and is not counted as the next one's, so that its
    limit would hold nothing back.

    Raises:
        UsageError: one cannot be read.
    """
    for path in paths:
        try:
            for file in _files(path):
                descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)
        except OSError as error:
            raise UsageError(
                f"measuring.dataset: {path} cannot be read: {error.strerror}; name files or folders"
            ) from error


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (each for each in sorted(path.rglob("*")) if each.is_file())
    else:
        yield path


def _is_memory_held(folder: str) -> bool:
    started = started_in(folder)
    group = started["cgroup"] if started is not None else None
    return bool(group) and held_to(group or "")[1] > 0


class _News:
    """What a backend sees of the one attempt; `is_over` once nothing of it runs."""

    def __init__(self, backend: SupervisedBackend) -> None:
        self.is_over = False
        self._backend = backend
        self._seen: deque[Input] = deque()

    async def next(self) -> Input | None:
        """Wait for what is seen next; None: nothing was for a while."""
        if not self._seen:
            _, inputs = await self._backend.observe(self._backend.now_us() + _LOOK_US)
            self._seen.extend(inputs)
        seen = self._seen.popleft() if self._seen else None
        self.is_over = self.is_over or isinstance(seen, _OVER)
        return seen

    async def started(self) -> None:
        """Wait until the job's processes run.

        Raises:
            BackendError: they cannot be started.
        """
        while not isinstance(seen := await self.next(), facts.AttemptStarted):
            if isinstance(seen, facts.LaunchFailed):
                raise BackendError(f"the job cannot be started: {seen.cause}")

    async def over(self) -> None:
        """Wait until nothing of the job runs."""
        while not self.is_over:
            await self.next()


def _ending(seen: AttemptExited | facts.AttemptLost) -> str:
    if isinstance(seen, facts.AttemptLost):
        return f"it was lost: {seen.cause}"
    code = seen.exit_code
    return "nobody saw its exit code" if code is None else f"exit code {code}"


# A server of a cluster is reached with a folder of its own there and in the name of no cluster, so
# the agent of the daemon that schedules it is left alone.

_GRACE_S, _SAMPLE_S, _LOOK_S = 2.0, 0.25, 0.25
_CLUSTER, _FOLDER = "profile", "-profile"
_HERE = NodeName("here")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class ThisServer:
    """This machine, with GPUs by their names and all CPUs that we have."""

    gpus: tuple[str, ...]
    cpus: tuple[int, ...]
    name: NodeName = _HERE
    is_here: bool = True

    def backend(self, root: str) -> SupervisedBackend:
        """Return the local backend."""
        settings = LocalSettings(
            root,
            (LocalNode(self.name, self.gpus, self.cpus),),
            1,
            environment=dict(os.environ),
            grace_s=_GRACE_S,
            sample_s=_SAMPLE_S,
            patrol_s=_LOOK_S,
            is_limited=True,
            downsamples=False,
            is_bound=True,  # or it would run on after a kill -9
        )
        return LocalBackend(settings)


@dataclass(frozen=True)
class SshServer:
    """A server of a cluster, over SSH; `settings` are those of it alone."""

    name: NodeName
    settings: "SshSettings"
    is_here: bool = False

    def backend(self, root: str) -> SupervisedBackend:
        """Return the SSH backend."""
        from shunter.backends.live import SshBackend

        return SshBackend(replace(self.settings, root=root))


def this_server(file: JobFile) -> ThisServer:
    """Return this machine, with the first of the GPUs that are ours.

    In Slurm those are the allocation's.

    Raises:
        ConfigError: the server of the file has more CPUs, or the job more GPUs, than are ours.
    """
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    if file.job.server.cpus > len(cpus):
        what = f"expected at most the {len(cpus)} that this machine has for us, "
        what += f"not {file.job.server.cpus}; run it on such a server"
        raise file.wrong("server", "cpus", what=what)
    visible = [gpu for gpu in os.environ.get(_VISIBLE, "").split(",") if gpu]
    ours = visible or [str(gpu) for gpu in range(file.job.gpus)]
    if file.job.gpus > len(ours):
        what = f"expected at most the {len(ours)} of {_VISIBLE}, not {file.job.gpus}"
        raise file.wrong("gpus", what=what)
    return ThisServer(tuple(ours[: file.job.gpus]), cpus)


def ssh_server(file: JobFile, loaded: LoadedConfig, name: str | None) -> SshServer:
    """Return a server of a cluster that is reached over SSH.

    Args:
        file: the job, whose server is held to it.
        loaded: the config of the cluster.
        name: the server; the first one with GPUs, if it is left out.
    Raises:
        ConfigError: the cluster is not reached over SSH, has no such server, or the server has
            less than the file says.
    """
    section = loaded.config.backend.ssh
    if loaded.config.backend.kind != "ssh" or section is None:
        raise ConfigError(
            f"{loaded.source}: backend.kind = {loaded.config.backend.kind!r}: expected 'ssh' to "
            "measure a job on one of its servers; on any other run `shunter admin profile` there, "
            "in Slurm as `srun shunter admin profile`"
        )
    if find_spec("asyncssh") is None:
        raise ConfigError(f"backend.kind = 'ssh' needs asyncssh: {extra_hint('ssh')}")
    from shunter.daemon import ssh_settings

    servers = dict(loaded.config.cluster.servers())
    with_gpus = [node for node, where in servers.items() if where.gpus]
    node = NodeName(name) if name is not None else (with_gpus or list(servers))[0]
    if node not in servers:
        known = ", ".join(list(servers)[:5])
        raise ConfigError(f"{loaded.source}: [cluster] has no server {node!r}; it has {known}")
    _check(file, node, servers[node])
    # Of two that measure on one server the later one takes it over, as a later term of a daemon.
    settings = ssh_settings(section, loaded.config.cluster, _CLUSTER, int(clock.wall_s()))
    (host,) = [each for each in settings.hosts if each.name == node]
    alone = replace(
        settings,
        hosts=(replace(host, base=f"{host.base}{_FOLDER}"),),
        grace_s=_GRACE_S,
        sample_s=_SAMPLE_S,
        patrol_s=_LOOK_S,
        is_limited=True,
        downsamples=False,
        is_bound=True,  # or it would run on after a kill -9
    )
    return SshServer(node, alone)


def _check(file: JobFile, node: NodeName, where: ConfigurationSet) -> None:
    """Raise a ConfigError if the server has fewer GPUs or CPUs than the file."""
    server, cpus = file.job.server, where.cpus_milli // 1000
    if file.job.gpus > where.gpus:
        what = f"expected at most the {where.gpus} of {node}, not {file.job.gpus}"
        raise file.wrong("gpus", what=what)
    if cpus and server.cpus > cpus:
        what = f"expected at most the {cpus} of {node}, not {server.cpus}"
        raise file.wrong("server", "cpus", what=what)


# A folder whose lock nobody holds was left by a `shunter admin profile` that was killed.

_PREFIX = "shunter-profile-"


@contextmanager
def measuring_folder() -> Iterator[str]:
    """Make a folder for one measurement; it is removed after the block."""
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        lock = _locked(path)
        if lock is not None:  # else it was taken for one that was left
            break
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> list[str]:
    """Remove the folders of measurements that were killed.

    A folder of which processes still run is left as it is. Returns what is to be known, in words.
    """
    notes = []
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        lock = _locked(str(path))
        if lock is None:
            continue
        try:
            running = sorted(
                pid for each in alive_below(str(path)).values() for pids in each for pid in pids
            )
            if running:
                named = ", ".join(map(str, running))
                notes.append(
                    f"a `shunter admin profile` that was killed has left processes that run: "
                    f"{named}; end them, its files are in {path}"
                )
            else:
                shutil.rmtree(path, ignore_errors=True)
                notes.append(
                    f"removed {path}, which a `shunter admin profile` that was killed has left"
                )
        finally:
            os.close(lock)
    return notes


def _locked(path: str) -> int | None:
    """Lock a folder; None: another process holds it, or it is not ours."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(folder)
        if found.st_uid == os.geteuid() and os.path.samestat(found, Path(path).stat()):
            return folder
    except OSError:
        pass
    os.close(folder)
    return None
