"""How long GPUs took to change hands between jobs that share them in turns.

    turn of one ends ─ its processes stop, those of the other go on ─▶ turn of the other begins

That counts only where the other one waited already: GPUs that nobody waits for stand idle.
"""

from dataclasses import dataclass, field

from shunter.core.cluster.tenants import Gpu, gpus_of
from shunter.events.values.allocation import Share
from shunter.events.values.ids import JobId


@dataclass(slots=True)
class Switches:
    """Notes turns as they begin and end.

    `took_us` are the changes of hands, in microseconds.
    """

    took_us: list[int] = field(default_factory=list)
    _turns: dict[JobId, Share] = field(default_factory=dict)
    _left_us: dict[Gpu, int] = field(default_factory=dict)

    def began(self, job_id: JobId, share: Share, at_us: int, waits_since_us: int) -> None:
        """Note that a job has its turn, for which it had waited.

        Where the end of the turn before is not noted yet, nobody knows how long it took.
        """
        gpus = gpus_of(share)
        is_known = not any(gpu in gpus for other in self._turns.values() for gpu in gpus_of(other))
        left_us = max([self._left_us.get(gpu, -1) for gpu in gpus])
        if is_known and left_us > waits_since_us:
            self.took_us.append(max(0, at_us - left_us))
        self._turns[job_id] = share

    def ended(self, job_id: JobId, at_us: int) -> None:
        """Note that the turn of a job is over, if it had one."""
        share = self._turns.pop(job_id, None)
        if share is not None:
            self._left_us |= dict.fromkeys(gpus_of(share), at_us)
