"""A partition of Slurm as a cluster, where each attempt is a batch job of its own."""

from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.jobs.transport import JobTransport
from shunter.backends.slurm.settings import SlurmSettings
from shunter.backends.supervised.backend import SupervisedBackend

__all__ = ["JobBackend"]


class JobBackend(SupervisedBackend):
    """Runs each attempt as a Slurm job; use it as an async context."""

    def __init__(self, settings: SlurmSettings, start_us: int = 0) -> None:
        slurm = Slurm(deadline_s=settings.command_s, conf=settings.conf)
        transport = JobTransport(settings, slurm)
        super().__init__(settings, settings.owner, [transport], start_us)
