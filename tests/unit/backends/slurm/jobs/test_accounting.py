"""What accounting says of attempts that the queue has forgotten."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from shunter import clock
from shunter.backends.node import BEGUN, put, take_claim
from shunter.backends.slurm import (
    Accounting,
    JobAttempt,
    Patience,
    QueueView,
    Slurm,
    SlurmJob,
    attempt_job_name,
)
from shunter.clock import clock_set
from shunter.errors import SlurmUnknownError
from tests.doubles.virtual_clock import VirtualClock
from tests.unit.backends.slurm.jobs.test_attempt import KEY, STARTED, STATUS

OTHER = ("j1", 1)
Rows = tuple[tuple[tuple[str, int], str, str], ...]


class Recorded(Slurm):
    """Commands of a site whose accounting says what is set; None: it keeps none."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Rows | None = ()
        self.asked: list[tuple[str, ...]] = []

    async def history(self, since_s: int, names: Sequence[str] = ()) -> tuple[SlurmJob, ...]:
        self.asked.append(tuple(names))
        if self.rows is None:
            raise SlurmUnknownError("Slurm accounting storage is disabled", "")
        return tuple(
            SlurmJob(number, attempt_job_name("lab", *key), user, state)
            for number, (key, user, state) in enumerate(self.rows, 1)
        )


@pytest.fixture
def virtual() -> Iterator[VirtualClock]:
    """A clock that is moved by hand."""
    found = VirtualClock()
    with clock_set(found):
        yield found


def learnt(slurm: Recorded, *forgotten: tuple[str, int]) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return what a first question tells."""
    accounting = Accounting(slurm, "lab", "me")
    is_new = anyio.run(accounting.ask, forgotten)
    assert is_new == bool(accounting.ends)
    return dict(accounting.ends)


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        (((KEY, "me", "TIMEOUT"),), {KEY: ("TIMEOUT",)}),
        (((KEY, "me", "RUNNING"),), {}),
        (((KEY, "me", "CANCELLED"), (KEY, "me", "RUNNING")), {}),
        (((KEY, "me", "FAILED"), (KEY, "me", "NODE_FAIL")), {KEY: ("FAILED", "NODE_FAIL")}),
        (((KEY, "eve", "COMPLETED"),), {}),
        (((("j9", 1), "me", "COMPLETED"),), {}),
        ((), {}),
        (None, {}),
    ],
)
def test_only_what_is_over_as_a_whole_and_ours_is_learnt(
    virtual: VirtualClock, rows: Rows | None, ends: dict[tuple[str, int], tuple[str, ...]]
) -> None:
    slurm = Recorded()
    slurm.rows = rows
    assert learnt(slurm, KEY, OTHER) == ends
    assert slurm.asked == [(attempt_job_name("lab", *KEY), attempt_job_name("lab", *OTHER))]


def test_accounting_is_asked_once_a_minute_and_not_for_what_it_has_said(
    virtual: VirtualClock,
) -> None:
    slurm = Recorded()
    slurm.rows = ((KEY, "me", "TIMEOUT"),)
    accounting = Accounting(slurm, "lab", "me")

    async def asks() -> None:
        assert not await accounting.ask([])
        assert await accounting.ask([KEY, OTHER])
        assert not await accounting.ask([KEY, OTHER])
        virtual.advance(61 * 10**9)
        assert not await accounting.ask([KEY])
        assert not await accounting.ask([KEY, OTHER])
        assert not await accounting.ask([])

    anyio.run(asks)
    assert [len(names) for names in slurm.asked] == [2, 1]
    assert accounting.ends == {}, "what is settled is not kept"


def test_sacct_is_asked_for_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "sacct"
    command.write_text('#!/bin/sh\necho "error: $*" >&2\nexit 1\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmUnknownError, match=r" --name=a\.a1,b\.a1"):
        anyio.run(Slurm().history, 0, ("a.a1", "b.a1"))


@pytest.mark.parametrize(
    ("state", "wait_s", "cause"),
    [
        ("TIMEOUT", 16.0, "Slurm's time limit ended it"),
        ("CANCELLED", 16.0, "it was cancelled in Slurm (scancel)"),
        ("NODE_FAIL", 901.0, "Slurm ended it: NODE_FAIL"),
        ("", 901.0, "Slurm ended it: forgotten"),
    ],
)
def test_end_that_accounting_knows_is_believed_like_that_of_the_queue(
    tmp_path: Path, virtual: VirtualClock, state: str, wait_s: float, cause: str
) -> None:
    """As to processes that may live on, too; without accounting it is as if forgotten."""
    seen: list[QueueView] = []
    attempt = JobAttempt(
        str(tmp_path), KEY, lambda: seen[-1] if seen else QueueView(), Patience(15.0, 900.0)
    )
    assert take_claim(str(tmp_path), BEGUN)
    put(f"{tmp_path}/started", STARTED)
    assert not attempt.is_forgotten()
    virtual.advance(30 * 10**9)
    seen.append(QueueView(clock.monotonic_s(), {}, {KEY: (state,)} if state else {}))
    assert attempt.is_forgotten()
    assert attempt.look()[0]["state"] == "running"
    virtual.advance(int((wait_s - 2) * 1e9))
    assert attempt.look()[0]["state"] == "running"
    virtual.advance(2 * 10**9)
    assert attempt.look()[0] == {**attempt.look()[0], "state": "lost", "cause": cause}
    put(f"{tmp_path}/status", STATUS)
    assert not attempt.is_forgotten()


def test_attempt_that_has_not_begun_and_was_cancelled_is_not_missed_for_ever(
    tmp_path: Path, virtual: VirtualClock
) -> None:
    """What accounting says of it is why it is not submitted again."""
    attempt = JobAttempt(str(tmp_path), KEY, lambda: view, Patience(15.0, 900.0))
    virtual.advance(30 * 10**9)
    view = QueueView(clock.monotonic_s(), {}, {KEY: ("CANCELLED",)})
    assert attempt.is_missed()
    assert view.ended_as(KEY) == "CANCELLED"
