"""What Slurm is told to end: each once at a time, and again until it has."""

from collections.abc import Sequence

import anyio
import pytest

from shunter.backends.slurm import Slurm
from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.script import job_name
from shunter.backends.slurm.jobs.submissions import Submissions
from shunter.clock.virtual import VirtualClock
from tests.unit.backends.slurm.jobs.queue import queued

MANY = 50


class Cancelling(Slurm):
    """Commands that take a second each, and are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled: list[tuple[int, str, str]] = []

    async def cancel(
        self, jobs: Sequence[int], *, name: str = "", signal: str = "", batch_only: bool = False
    ) -> None:
        await anyio.sleep(1)
        (number,) = jobs
        self.cancelled.append((number, name, signal))


def view(count: int, state: str = "PENDING") -> QueueView:
    """Return a queue of one Slurm job for each of some attempts."""
    jobs = [
        queued(job_name("lab", f"j{number}", 1), id=number, state=state) for number in range(count)
    ]
    return QueueView.of("lab", "me", 0.0, jobs)


async def many_are_ended() -> Cancelling:
    slurm = Cancelling()
    async with anyio.create_task_group() as tasks:
        submissions = Submissions(slurm, "lab", tasks)
        submissions.take(view(MANY))
        for number in range(MANY):
            submissions.end((f"j{number}", 1))
        submissions.take(view(MANY))  # an answer from before, which says nothing new
    return slurm


def test_many_that_are_ended_at_once_cost_one_command_each() -> None:
    slurm = VirtualClock().run(many_are_ended)
    assert sorted(number for number, _, _ in slurm.cancelled) == list(range(MANY))
    assert slurm.cancelled[0][1] == job_name("lab", f"j{slurm.cancelled[0][0]}", 1)


async def one_is_ended_until_it_has() -> list[int]:
    slurm, counts = Cancelling(), []
    async with anyio.create_task_group() as tasks:
        submissions = Submissions(slurm, "lab", tasks)
        submissions.take(view(1, "RUNNING"))
        submissions.end(("j0", 1), 10.0)
        for _ in range(5):
            await anyio.sleep(4)
            submissions.take(view(1, "RUNNING"))
            await anyio.sleep(2)
            counts.append(len(slurm.cancelled))
        submissions.take(view(1, "CANCELLED"))
        await anyio.sleep(2)
        counts.append(len(slurm.cancelled))
    return counts


def test_what_does_not_end_is_ended_again_after_its_time() -> None:
    assert VirtualClock().run(one_is_ended_until_it_has) == [0, 1, 2, 3, 4, 4]


@pytest.mark.parametrize(("state", "signalled"), [("PENDING", 0), ("RUNNING", 1)])
def test_only_what_runs_is_woken(state: str, signalled: int) -> None:
    async def woken() -> Cancelling:
        slurm = Cancelling()
        async with anyio.create_task_group() as tasks:
            submissions = Submissions(slurm, "lab", tasks)
            submissions.take(view(1, state))
            submissions.wake(("j0", 1))
        return slurm

    slurm = VirtualClock().run(woken)
    assert [signal for _, _, signal in slurm.cancelled] == ["USR1"] * signalled
