"""What Slurm is told to end: each once at a time, and again until it has."""

from collections.abc import Sequence

import anyio
import pytest

from shunter.backends.slurm import QueueView, Slurm, Submissions, attempt_job_name
from shunter.errors import SlurmRefusedError
from tests.doubles.virtual_clock import VirtualClock
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
        queued(attempt_job_name("lab", f"j{number}", 1), id=number, state=state)
        for number in range(count)
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
    assert slurm.cancelled[0][1] == attempt_job_name("lab", f"j{slurm.cancelled[0][0]}", 1)


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


class Suspending(Cancelling):
    """Commands that suspend and resume as well, unless they are refused."""

    def __init__(self, *, may: bool = True) -> None:
        super().__init__()
        self.may, self.told = may, list[str]()

    async def suspend(self, jobs: Sequence[int]) -> None:
        await anyio.sleep(1)
        if not self.may:
            raise SlurmRefusedError("scontrol suspend: Access/permission denied for job 0")
        self.told.append("suspend")

    async def resume(self, jobs: Sequence[int]) -> None:
        await anyio.sleep(1)
        self.told.append("resume")


KEY = ("j0", 1)


async def stops(slurm: Suspending, *steps: str) -> list[str]:
    """Have an attempt that runs told things, some seconds after each other."""
    told: list[str] = []
    async with anyio.create_task_group() as tasks:
        submissions = Submissions(slurm, "lab", tasks, told.append)
        submissions.take(view(1, "RUNNING"))
        for step in steps:
            if step == "stop":
                submissions.suspend(KEY)
            elif step == "stands":
                submissions.note_stopped([KEY])
            elif step == "wake":
                submissions.wake(KEY)
            elif step == "pause":
                await anyio.sleep(5)
            else:
                submissions.take(view(1, step))
    return told


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (("stop", "pause"), []),
        (("stop", "stands", "pause"), ["suspend"]),
        (("stop", "stands", "pause", "stop", "SUSPENDED", "stands", "pause"), ["suspend"]),
        (("stop", "stands", "pause", "wake", "pause"), ["suspend", "resume"]),
        (("stop", "stands", "wake", "pause"), ["suspend", "resume", "resume"]),
        (("stop", "wake", "stands", "pause"), []),
        (("SUSPENDED", "wake", "pause"), ["resume"]),
        (("SUSPENDED", "wake", "pause", "SUSPENDED", "pause", "RUNNING"), ["resume", "resume"]),
        (("SUSPENDED", "pause"), []),
    ],
)
def test_attempt_is_suspended_once_it_stands_still_and_resumed_for_any_other_order(
    steps: tuple[str, ...], told: list[str]
) -> None:
    slurm = Suspending()
    assert VirtualClock().run(stops, slurm, *steps) == []
    assert sorted(slurm.told, reverse=True) == told


def test_who_may_not_suspend_is_told_so_once() -> None:
    slurm = Suspending(may=False)
    steps = ("stop", "stands", "pause", "stop", "stands", "pause")
    (words,) = VirtualClock().run(stops, slurm, *steps)
    assert words.startswith("jobs that stand still keep their CPUs in Slurm (scontrol suspend: Acc")
