"""All checks, in the order in which they are told; a backend with checks of its own adds them."""

from shunter.app.doctor import daemon, machine
from shunter.app.doctor.findings import Check, Finding, Looked
from shunter.app.hosts import checks as hosts

__all__ = ["CHECKS", "examined"]

CHECKS: tuple[Check, ...] = (
    machine.python,
    machine.sqlite,
    machine.gpus,
    machine.memory,
    machine.users,
    machine.disks,
    machine.boot,
    daemon.sockets,
    daemon.tokens,
    *hosts.CHECKS,
)


def examined(looked: Looked) -> list[Finding]:
    """Return what all checks find."""
    return [finding for check in CHECKS for finding in check(looked)]
