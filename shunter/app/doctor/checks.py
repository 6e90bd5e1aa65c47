"""All checks, in the order in which they are told, and those of the daemon: sockets, tokens, log.

A backend with checks of its own adds them.
"""

from collections.abc import Iterator
from pathlib import Path

from shunter.addresses import TcpAddress, UnixAddress, is_listening, parse_address
from shunter.app.api.access.tokens import read_tokens
from shunter.app.doctor import machine
from shunter.app.doctor.findings import Check, Finding, Looked
from shunter.app.doctor.pilot_ends import KINDS, moved_by_pilots
from shunter.app.hosts import checks as hosts
from shunter.app.slurm import checks as slurm
from shunter.errors import NotFoundError, ShunterError, UnavailableError

EVENTS_LOOKED_AT = 10_000
"""So many of the last events of a running cluster: hours to days of it."""


def sockets(looked: Looked) -> Iterator[Finding]:
    """Check each address of the config, or the usual one."""
    if looked.loaded is None:
        addresses: tuple[UnixAddress | TcpAddress, ...] = (parse_address("unix:"),)
    else:
        addresses = looked.loaded.config.server.addresses
    for address in addresses:
        if isinstance(address, UnixAddress):
            yield from _socket(address)


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

    from shunter.events.log.opening import MEMORY, NONE, path_of

    url = "" if looked.loaded is None else looked.loaded.config.log.url
    if url in ("", MEMORY, NONE):
        return
    try:
        head, warning = anyio.run(_resumed, url)
    except NotFoundError:
        return
    except ShunterError as error:
        path = path_of(url)
        if not path.exists() or path.stat().st_size:
            yield Finding("log", "bad", str(error))
        return
    if warning:
        yield Finding("log", "poor", warning)
    else:
        yield Finding("log", "good", f"{path_of(url)} is whole, up to event {head}")


async def _resumed(url: str) -> tuple[int, str]:
    """Read a log as a daemon that starts; return its last number, and a warning."""
    from shunter.app.live.cluster_identity import read_history
    from shunter.events.log import read_log

    async with read_log(url) as reader:
        head = await reader.check_tail()
        await read_history(reader)
        return head.seq, reader.warning


def _socket(address: UnixAddress) -> Iterator[Finding]:
    from shunter.client import Client

    path = Path(address.path)
    if not path.exists():
        yield Finding("socket", "good", f"{address} is free")
        return
    stale = f"{address} is left from a daemon that is gone; the next one takes its place"
    if _is_refused(address):  # httpx would leave its own socket open
        yield Finding("socket", "good", stale)
        return
    try:
        with Client(str(address)) as client:
            found = client.daemon()
            after = max(0, found["seq"] - EVENTS_LOOKED_AT)
            read = client.events(after=after, kind=KINDS, limit=EVENTS_LOOKED_AT)["events"]
    except UnavailableError:
        yield Finding("socket", "good", stale)
        return
    except ShunterError as error:
        yield Finding("socket", "bad", str(error), "ask its owner, or take another server.listen")
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


def _is_refused(address: UnixAddress) -> bool:
    try:
        return not is_listening(address)
    except PermissionError:
        return False


CHECKS: tuple[Check, ...] = (
    machine.python,
    machine.sqlite,
    machine.gpus,
    machine.memory,
    machine.held_shares,
    machine.users,
    machine.disks,
    machine.boot,
    sockets,
    tokens,
    kept_log,
    *hosts.CHECKS,
    *slurm.CHECKS,
)


def examined(looked: Looked) -> list[Finding]:
    """Return what all checks find."""
    return [finding for check in CHECKS for finding in check(looked)]
