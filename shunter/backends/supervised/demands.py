"""What every order of a supervisor must hold to, and how CPUs are dealt out."""

from collections import Counter
from collections.abc import Iterable

from shunter.backends.node.messages.known import a_job
from shunter.backends.node.messages.shapes import checked
from shunter.core.effects import Launch, Resume
from shunter.errors import BackendError

__all__ = ["check_startable", "quietest"]


def check_startable(effect: Launch | Resume) -> None:
    """Refuse what no supervisor could run.

    Raises:
        BackendError: its name names no folder, or it has no command.
    """
    job_id = effect.job_id
    if checked(job_id, a_job) is None:
        raise BackendError(f"job {job_id!r} cannot name a folder: use letters, digits, . _ -")
    if not effect.spec.command:
        raise BackendError(f"job {job_id} has no command to run")


def quietest(cpus: Iterable[int], count: int, tenants: Counter[int]) -> list[int]:
    """Return the CPUs with the fewest tenants."""
    return sorted(sorted(cpus, key=lambda cpu: (tenants[cpu], cpu))[:count])
