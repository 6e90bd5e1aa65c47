"""All checks in the order of printing, and those of the daemon: sockets, tokens, log.

A backend with checks of its own adds them.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shunter.addresses import (
    TcpAddress,
    UnixAddress,
    has_been_used,
    parse_address,
    socket_of_up,
    usual_sockets,
)
from shunter.api import read_tokens, user_name
from shunter.errors import ConfigError, NotFoundError, RefusedError, ShunterError, UnavailableError
from shunter.events import DISPLACED, HELD, NODE_LOST, RESIZED
from shunter.ops import machine_checks as machine
from shunter.ops.machine_checks import Check, Finding, Looked
from shunter.ops.slurm_site import slurm
from shunter.ops.ssh_hosts import hosts

if TYPE_CHECKING:
    from shunter.client import Answer


EVENTS_LOOKED_AT = 10_000
"""So many of the last events of a running cluster: hours to days of it."""


_OTHERS = "ask its owner, or take another server.listen"


def sockets(looked: Looked) -> Iterator[Finding]:
    """Check each address of the config, else those where commands look for a daemon."""
    if looked.loaded is None:
        usual = usual_sockets()
        used = [path for path in usual if has_been_used(path)]
        addresses: Sequence[UnixAddress | TcpAddress] = [
            parse_address(f"unix:{path}") for path in used or (socket_of_up(),)
        ]
    else:
        addresses = looked.loaded.config.server.addresses
    found: list[Finding] = []
    for address in addresses:
        if isinstance(address, UnixAddress):
            found += _socket(address, looked)
    yield from found
    if not any(finding.subject == "daemon" for finding in found):  # else the ports are its own
        yield from filter(None, map(_port, addresses))


def tokens(looked: Looked) -> Iterator[Finding]:
    """Check the file of tokens, if there is to be one."""
    if looked.loaded is None or looked.loaded.config.server.token_file is None:
        return
    path = looked.loaded.config.server.token_file
    try:
        found = read_tokens(path)
    except ShunterError as error:
        yield Finding("tokens", "bad", str(error), f"`shunter serve --make-token` makes {path}")
    else:
        yield Finding("tokens", "good", f"{path}, for {', '.join(found.users)}")


def kept_log(looked: Looked) -> Iterator[Finding]:
    """Check that a daemon can go on with the log that is there, if there is one."""
    import anyio

    from shunter.events.log import MEMORY, NONE, path_of

    url = "" if looked.loaded is None else looked.loaded.config.log.url
    if url in ("", MEMORY, NONE):
        return
    head, cluster, warning = 0, "", ""
    try:
        with suppress(NotFoundError):
            head, cluster, warning = anyio.run(_resumed, url)
    except ShunterError as error:
        if not _is_empty(path_of(url)):
            yield Finding("log", "bad", str(error))
            return
    try:
        _refuse_other_attempts(looked, cluster if head else "")
    except ShunterError as error:
        yield Finding("log", "bad", str(error))
        return
    if not head:
        return
    if warning:
        yield Finding("log", "poor", warning)
    else:
        yield Finding("log", "good", f"{path_of(url)} is whole, up to event {head}")


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def _refuse_other_attempts(looked: Looked, cluster: str) -> None:
    """Raise ConfigError if the folder of attempts here is that of another log."""
    from shunter.daemon import refuse_other_attempts

    local = None if looked.loaded is None else looked.loaded.config.backend.local
    if local is not None:
        with suppress(OSError):  # the check of disks says that it cannot be looked at
            refuse_other_attempts(str(Path(local.root).absolute()), cluster)


async def _resumed(url: str) -> tuple[int, str, str]:
    """Read a log as a daemon that starts; return last number, cluster and warning."""
    from shunter.daemon import read_history
    from shunter.events.log import read_log

    async with read_log(url) as reader:
        head = await reader.check_tail()
        history = await read_history(reader)
        return head.seq, history.identity.cluster_id, reader.warning


def _socket(address: UnixAddress, looked: Looked) -> Iterator[Finding]:
    try:
        is_there = Path(address.path).exists()
    except PermissionError:
        who = user_name(os.geteuid())
        what = f"{address} cannot be looked at: {who} may not enter its folder"
        yield Finding("socket", "bad", what, f"let {who} enter it, or take another server.listen")
        return
    if not is_there:
        yield Finding("socket", "good", f"{address} is free")
        return
    stale = f"{address} is left from a daemon that is gone; the next one takes its place"
    from shunter.client import Client, ConnectTimeoutError, NoAnswerError

    try:
        with Client(str(address)) as client:
            client.on_slow = partial(looked.note, f"the daemon on {address} has not answered yet")
            found = client.daemon()
            after = max(0, found["seq"] - EVENTS_LOOKED_AT)
            read = client.events(after=after, kind=PILOT_KINDS, limit=EVENTS_LOOKED_AT)["events"]
    except UnavailableError:
        yield Finding("socket", "good", stale)
        return
    except ShunterError as error:
        is_silent = isinstance(error.__cause__, ConnectTimeoutError | NoAnswerError)
        mend = "" if is_silent else _OTHERS
        yield Finding("socket", "bad", str(error), mend)
        return
    what = f"a daemon answers on {address}: term {found['term']}, policy {found['policy']}"
    yield Finding("daemon", "good", f"{what}, serving {found['serves']}")
    if found["policy_fault"]:
        yield Finding(
            "policy",
            "bad",
            f"{found['policy']} failed in the last round: {found['policy_fault']}",
            "jobs run on, and none starts; the daemon's journal has the whole of it; cancel the "
            "job it names, or take another policy.name and restart the daemon",
        )
    for cause, (left, moved) in moved_by_pilots(read).items():
        whom = f"; for these {', '.join(moved)} had to leave elsewhere" if moved else ""
        what = f"{cause}: {', '.join(left)} left it{whom}"
        yield Finding("pilot", "poor" if moved else "good", what, "`shunter why JOB` says the rest")


def _port(address: UnixAddress | TcpAddress) -> Finding | None:
    """Return what keeps a daemon from a port, if something does."""
    if isinstance(address, UnixAddress):
        return None
    from shunter.api import listening_on
    from shunter.client import Client

    try:
        with listening_on(address, has_tls=False):
            return None
    except ConfigError as error:
        return Finding("port", "bad", str(error), "correct server.listen")
    except RefusedError as error:
        try:
            with Client(str(address)) as client:
                client.daemon()
        except RefusedError:  # it wants a token, as a daemon does
            pass
        except ShunterError:
            return Finding("port", "bad", str(error))
    return Finding("port", "good", f"a daemon answers on {address}")


CHECKS: tuple[Check, ...] = (
    machine.python,
    machine.sqlite,
    machine.gpus,
    machine.sizes,
    machine.memory,
    machine.held_shares,
    machine.users,
    machine.disks,
    machine.boot,
    sockets,
    tokens,
    kept_log,
    hosts,
    slurm,
)


def examined(looked: Looked) -> list[Finding]:
    """Return what all checks find."""
    return [finding for check in CHECKS for finding in check(looked)]


PILOT_KINDS = "JobSuspended,AttemptLost,AllocationChanged"
PILOT = "the pilot on node "
_NO_PREEMPTION = [each.rule for each in (HELD, NODE_LOST, DISPLACED, RESIZED)]


def moved_by_pilots(events: "Iterable[Answer]") -> dict[str, tuple[list[str], list[str]]]:
    """Return who left with each pilot that ended, and who was preempted for these.

    Args:
        events: those of the kinds `PILOT_KINDS`, in order.
    """
    found: dict[str, tuple[list[str], list[str]]] = {}
    ends: dict[str, str] = {}
    given: dict[str, str] = {}
    for event in events:
        job, kind, at = event["job_id"], event["kind"], event["at"]
        if kind != "AllocationChanged":
            ends.pop(job, None)
            given.pop(job, None)
            cause = event.get("cause", "")
            if cause.startswith(PILOT):
                ends[job] = cause
                found.setdefault(cause, ([], []))[0].append(job)
        elif event["allocation"].get("shares"):
            given[job] = at
        elif event["because"]["rule"] not in _NO_PREEMPTION:
            for gainer in event["because"].get("beneficiaries", ()):
                # In one plan those that leave and those that gain may come in either order.
                if gainer in ends and given.get(gainer, at) == at:
                    found[ends[gainer]][1].append(job)
    return found
