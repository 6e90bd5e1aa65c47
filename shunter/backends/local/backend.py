"""This machine as a cluster: its agent is a process beside the daemon."""

from shunter.backends.local.settings import LocalSettings
from shunter.backends.local.transport import LocalTransport
from shunter.backends.supervised.backend import SupervisedBackend


class LocalBackend(SupervisedBackend):
    """Runs attempts on this machine; use it as an async context."""

    def __init__(self, settings: LocalSettings, start_us: int = 0) -> None:
        super().__init__(settings, settings.owner, [LocalTransport(settings)], start_us)
