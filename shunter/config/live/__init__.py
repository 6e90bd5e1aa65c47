"""The sections of a config file that only a live cluster reads."""

from shunter.config.live.backend import BackendSection, LocalSection
from shunter.config.live.limits import LimitsSection
from shunter.config.live.server import ServerSection, TlsSection
from shunter.config.live.slurm import SlurmSection
from shunter.config.live.ssh import SshHostSection, SshSection

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
