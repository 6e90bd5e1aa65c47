"""What became of attempts that Slurm's queue has forgotten, where the site keeps accounting.

The controller forgets a job some minutes after its end. What ended while no daemon looked, and
left no record, could then only be waited for; accounting still knows how it ended. Without an
answer, or without accounting, nothing is known by it. Accounting as a text file (jobcomp/filetxt)
is not read: names of jobs stand there as their users wrote them, line breaks included, so anybody
could write the end of a job that is not his, and sacct 22.05 dies of such a name.
"""

from collections.abc import Mapping, Sequence

from shunter import clock
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.jobs.script import Key, job_name
from shunter.backends.slurm.records import PastJob
from shunter.errors import SlurmUnknownError

ASK_S = 60.0
"""Seconds between two questions: it is a database, which others use."""
DEADLINE_S = 5.0
DAYS_S = 7 * 86_400
NAMES_MOST = 500
"""So many jobs are asked for by one question, which is a line of a command."""


class Accounting:
    """How attempts ended, of those that were asked for.

    Args:
        slurm: the commands of the cluster, for accounting alone: its silence is not Slurm's.
        cluster_id: whose attempts.
        user: who submits them.
    """

    def __init__(self, slurm: Slurm, cluster_id: str, user: str) -> None:
        self._slurm = slurm
        self._cluster_id = cluster_id
        self._user = user
        self._ask_from_s = 0.0
        self._ends: dict[Key, tuple[str, ...]] = {}

    @property
    def ends(self) -> Mapping[Key, tuple[str, ...]]:
        """The last states of each attempt's Slurm jobs, once all of them are over."""
        return dict(self._ends)

    async def ask(self, forgotten: Sequence[Key]) -> bool:
        """Ask what became of attempts, not too often; say whether any is settled."""
        self._ends = {key: self._ends[key] for key in forgotten if key in self._ends}
        unknown = [key for key in forgotten if key not in self._ends][:NAMES_MOST]
        if not unknown or clock.monotonic_s() < self._ask_from_s:
            return False
        names = {job_name(self._cluster_id, *key): key for key in unknown}
        try:
            past = await self._slurm.history(int(clock.wall_s()) - DAYS_S, tuple(names))
        except SlurmUnknownError:  # also where a site keeps none
            past = ()
        self._ask_from_s = clock.monotonic_s() + ASK_S
        found: dict[Key, list[PastJob]] = {}
        for job in past:
            if job.user == self._user and job.name in names:
                found.setdefault(names[job.name], []).append(job)
        over = {
            key: tuple(job.state for job in jobs)
            for key, jobs in found.items()
            if all(job.has_ended for job in jobs)
        }
        self._ends |= over
        return bool(over)
