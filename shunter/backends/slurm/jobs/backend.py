"""A partition of Slurm as a cluster, where each attempt is a batch job of its own."""

from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.jobs.transport import JobTransport
from shunter.backends.slurm.settings import SlurmSettings
from shunter.backends.supervised.backend import SupervisedBackend
from shunter.core.effects import Launch, Resume
from shunter.events.facts.execution import LaunchFailed
from shunter.events.values.allocation import Sharing
from shunter.events.values.ids import JobId

__all__ = ["JobBackend"]

SHARES = "Slurm gives each GPU to one job only, and this one was to share: mode = 'pilot' lets it"


class JobBackend(SupervisedBackend):
    """Runs each attempt as a Slurm job; use it as an async context."""

    def __init__(self, settings: SlurmSettings, start_us: int = 0) -> None:
        slurm = Slurm(deadline_s=settings.command_s, conf=settings.conf)
        self._transport = JobTransport(settings, slurm)
        super().__init__(settings, settings.owner, [self._transport], start_us)

    def launch_wait(self, job_id: JobId) -> str:
        """Return what Slurm says that an attempt waits for; nothing if none does."""
        gang = self._gangs.get(job_id)
        return "" if gang is None else self._transport.wait_of(job_id, gang.watch.attempt)

    async def _launch(self, effect: Launch | Resume) -> None:
        if effect.allocation.sharing is Sharing.exclusive:
            await super()._launch(effect)
            return
        job_id, attempt = effect.job_id, effect.attempt
        self._newest[job_id] = attempt
        self._inbox.put(lambda at_us: LaunchFailed(at_us, job_id, attempt, SHARES, retryable=False))
