"""The daemon: a site and its API in one process, until a signal or a fault ends both.

    sockets bound ─▶ site opened (log, recovery) ─▶ loop at work ─▶ API answers ─▶ ready

Whatever ends it, jobs run on: they are their supervisors', and the next start finds them again.
"""

import logging
import os
import pwd
import resource
import signal
import socket
import sys
import traceback
from asyncio import CancelledError
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache

import anyio
import h11
import orjson
import uvicorn
from anyio.abc import TaskGroup

from shunter import clock
from shunter.api.access import Callers, PeerProtocol, Tokens, read_tokens, user_name
from shunter.api.cluster_state import Metrics
from shunter.api.event_stream import Stream
from shunter.api.routes import ROUTES
from shunter.api.routing import application
from shunter.api.services import Services
from shunter.api.sockets import BACKLOG, Listening, listening
from shunter.config import LoadedConfig, ServerSection
from shunter.daemon import Site, TellOperator, open_site
from shunter.errors import ConfigError, first_error
from shunter.events import JobId
from shunter.events.log import WithoutLost

Ready = Callable[[Site, Sequence[Listening]], None]
"""Told once the daemon takes commands."""

HEADER_S = 20
GRACE_S = 3
FILES_MOST = 65_536
OTHER_FILES = 2048
CONNECTIONS_MOST = 8192
"""Connections at the same time; who comes then is told 503, so that those who are there go on."""


class QuietServer(uvicorn.Server):
    """A server that leaves signals to the daemon, and says when it takes connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.is_up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def run_daemon(
    loaded: LoadedConfig,
    ready: Ready,
    tell: TellOperator,
    set_aside: Collection[JobId] = (),
    resume: bool | WithoutLost = True,
) -> None:
    """Serve a cluster until SIGTERM or SIGINT.

    Args:
        loaded: its config.
        ready: told once it takes commands.
        tell: told of faults that do not end it.
        set_aside: jobs whose attempts are ended unread.
        resume: `WithoutLost` goes on even if these events are lost.
    Raises:
        ConfigError: the config is of no live cluster, or a socket cannot be had.
        RefusedError: another daemon has one of the sockets.
        LogError: the log cannot be opened or written, or another daemon writes it.
        BackendError: the backend failed for good.
    """
    server = loaded.config.server
    tokens = _tokens(server)
    _raise_file_limit()
    brief_messages()
    with listening(server) as sockets:
        async with open_site(loaded, set_aside, resume) as site:
            callers = Callers(server.admins, tokens, proposers=server.proposers)
            services = Services(site, callers, Stream(site), Metrics(site), _openapi)
            try:
                await _at_work(services, sockets, server, ready, tell)
            except BaseExceptionGroup as errors:
                raise first_error(errors) from errors


@cache
def _openapi() -> bytes:
    from shunter.api.routes import openapi_document

    return orjson.dumps(openapi_document(ROUTES))


async def _at_work(
    services: Services,
    sockets: Sequence[Listening],
    section: ServerSection,
    ready: Ready,
    tell: TellOperator,
) -> None:
    """Run loop, stream and API side by side; the end of one is the end of all."""
    server = QuietServer(_uvicorn_config(services, section))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_on_signal, services.site, tasks)
        tasks.start_soon(_say_ready, services, server, sockets, ready)
        async with anyio.create_task_group() as work:
            work.start_soon(_run_site, services, server, tell)
            work.start_soon(services.stream.run)
            await server.serve([each.connection for each in sockets])
            services.site.stop()
        tasks.cancel_scope.cancel()


async def _run_site(services: Services, server: QuietServer, tell: TellOperator) -> None:
    """Run the loop; when it ends, for whatever reason, the API ends."""
    try:
        await services.site.run(tell)
    finally:
        services.is_ready = False
        server.should_exit = True


async def _stop_on_signal(site: Site, tasks: TaskGroup) -> None:
    """Stop the site at the first signal; a second one does not wait for anything."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        count = 0
        async for _ in signals:
            count += 1
            if count > 1:
                tasks.cancel_scope.cancel()
            _notify("STOPPING=1")
            site.stop()


async def _say_ready(
    services: Services, server: QuietServer, sockets: Sequence[Listening], ready: Ready
) -> None:
    await server.is_up.wait()
    await services.site.caught_up()  # or the first answers would tell of jobs that have ended
    services.is_ready = True
    for each in sockets:
        each.was_up.set()
    ready(services.site, sockets)
    _notify("READY=1")


def _uvicorn_config(services: Services, section: ServerSection) -> uvicorn.Config:
    tls = section.tls
    return uvicorn.Config(
        application(ROUTES, services),
        http=PeerProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=HEADER_S,
        limit_concurrency=_connections_most(),
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )


def _tokens(server: ServerSection) -> Tokens | None:
    """Return the tokens of a config; ConfigError: for a user it cannot serve."""
    if server.token_file is None:
        return None
    tokens, own = read_tokens(server.token_file), os.geteuid()
    strangers = [user for user in tokens.users if own != 0 and user != user_name(own)]
    unknown = [user for user in tokens.users if own == 0 and not _is_known(user)]
    if unknown:
        raise ConfigError(
            f"{server.token_file}: this machine knows no user {', '.join(unknown)}, as whom to "
            "start jobs"
        )
    if strangers:
        raise ConfigError(
            f"{server.token_file}: a daemon of {user_name(own)} starts jobs as {user_name(own)}, "
            f"and there is a token of {', '.join(strangers)}; run it as root to serve others"
        )
    return tokens


def _is_known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _connections_most() -> int:
    """Return how many connections there may be; some files are for the rest."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(CONNECTIONS_MOST, max(files // 2, files - OTHER_FILES))


def _raise_file_limit() -> None:
    """Allow as many open files as the system lets us: every connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MOST if hard == resource.RLIM_INFINITY else min(hard, FILES_MOST)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _notify(state: str) -> None:
    """Send `READY=1` or `STOPPING=1` to systemd, where a `Type=notify` unit runs."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path[:1] not in ("/", "@"):
        return
    # An abstract name begins with a zero byte, which a variable cannot hold.
    address = "\0" + path[1:] if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.sendto(state.encode(), address)


EVERY_S = 60.0
KINDS_MOST = 100
NAMES = ("uvicorn.error", "shunter.api")


_CUT_AT_THE_END = "Cancel %s running task(s)"
"""How uvicorn says that clients who follow a job's output have not gone by themselves."""


class BriefHandler(logging.Handler):
    """Prints each message at most once a minute, and then how often it came.

    Anybody who reaches a socket can send requests that are none: they do not flood the log.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        now: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._now = now
        self._seen: dict[str, tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, or count it."""
        text = record.getMessage().strip()
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, CancelledError) or str(record.msg).startswith(_CUT_AT_THE_END):
            return  # the daemon ends, and with it what it was answering
        if isinstance(error, h11.LocalProtocolError):
            text = "a request turned out to be no HTTP when it was being answered"
        elif error is not None:
            text += "\n" + "".join(traceback.format_exception(error)).rstrip()
        last_s, missed = self._seen.get(text, (-EVERY_S, 0))
        now_s = self._now()
        if now_s - last_s < EVERY_S:
            self._seen[text] = last_s, missed + 1
            return
        if len(self._seen) >= KINDS_MOST:
            self._seen.clear()
        self._seen[text] = now_s, 0
        more = f" (and {missed:,} more times since it was told last)" if missed else ""
        self._tell(f"http: {text}{more}")


def brief_messages() -> None:
    """Let the server and the API tell briefly on stderr."""
    handler = BriefHandler(lambda line: print(line, file=sys.stderr, flush=True))
    for name in NAMES:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
