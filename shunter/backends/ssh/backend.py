"""Servers reached over SSH as one cluster: one connection, and one agent, a host."""

import anyio

from shunter.backends.ssh.settings import SshSettings
from shunter.backends.ssh.transport import SshTransport
from shunter.backends.supervised.backend import SupervisedBackend


class SshBackend(SupervisedBackend):
    """Runs attempts on hosts that sshd lets us into; use it as an async context."""

    def __init__(self, settings: SshSettings, start_us: int = 0) -> None:
        limit = anyio.Semaphore(settings.simultaneous)
        hosts = [SshTransport(host, settings, limit) for host in settings.hosts]
        super().__init__(settings, settings.owner, hosts, start_us)
