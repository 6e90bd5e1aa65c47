"""The sections of a config file that only a live cluster reads."""

from shunter.app.config.live.backend import BackendSection, LocalSection
from shunter.app.config.live.limits import LimitsSection
from shunter.app.config.live.server import ServerSection, TlsSection
from shunter.app.config.live.slurm import SlurmSection
from shunter.app.config.live.ssh import SshHostSection, SshSection

__all__ = [
    "BackendSection",
    "LimitsSection",
    "LocalSection",
    "ServerSection",
    "SlurmSection",
    "SshHostSection",
    "SshSection",
    "TlsSection",
]
