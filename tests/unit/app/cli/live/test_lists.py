from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from shunter.ask import REASONS
from shunter.cli import Column, age, clause, one_line, print_rows, printable
from shunter.cli.jobs import _print_queue
from shunter.events import Reason

NOW = datetime(2026, 11, 21, 18, tzinfo=UTC)


def row(number: int, reason: str | None = None) -> dict[str, object]:
    why = {"name": reason, "needed": 2, "free": 1, "blockers": ["j1"], "detail": ""}
    return {
        "id": f"j{number}",
        "name": "sweep",
        "user": "ana",
        "gpus": 2,
        "state": "waiting" if reason else "running",
        "since_at": NOW.isoformat(),
        "where": "",
        "cpus": 0.0,
        "memory_mb": 0,
        "cpus_held": 0.0,
        "memory_mb_held": 0,
        "rank": 1 if reason else None,
        "reason": why if reason else None,
        "launch_wait": "",
        "turns": None,
    }


def test_every_reason_of_the_log_has_words() -> None:
    assert set(REASONS) == {reason.value for reason in Reason}


def test_clause_names_numbers_and_a_few_blockers() -> None:
    blockers = [f"j{number}" for number in range(6)]
    found = clause(
        {"name": "no_capacity", "needed": 8, "free": 3, "blockers": blockers, "detail": "x"}
    )
    assert found == (
        "too few GPUs are free; needs 8, 3 free; held back by j0, j1, j2, j3 and 2 more; x"
    )


def test_clause_of_a_job_without_gpus_speaks_of_none() -> None:
    short = {"name": "cpu_or_memory_short", "needed": 0, "free": 0, "blockers": [], "detail": ""}
    assert clause(short) == "too few CPUs or too little memory is free"
    assert clause({**short, "needed": 2}).startswith(
        "too few CPUs or too little memory beside the GPUs; needs 2"
    )


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        (timedelta(seconds=5), "00:00:05"),
        (timedelta(hours=2, minutes=11, seconds=9), "02:11:09"),
        (timedelta(days=3, hours=2, minutes=11), "3d 02:11"),
        (timedelta(seconds=-5), "00:00:00"),
    ],
)
def test_age_is_short_and_never_negative(passed: timedelta, expected: str) -> None:
    assert age((NOW - passed).isoformat(), NOW) == expected


def test_text_of_others_moves_no_cursor() -> None:
    assert printable("a\x1b[31mb\nc\u202e") == "a?[31mb?c?"
    assert one_line("a\x1b[31mb\nc\u202e") == "a?[31mb?c?"


def test_cells_are_cut_and_sentences_are_not() -> None:
    assert len(printable("x" * 500)) == 60
    assert len(one_line("x" * 500)) == 500


def test_columns_are_as_wide_as_they_must_be(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(["NAME", Column("N", is_number=True)], [["a", "1"], ["long one", "20"]])
    assert capsys.readouterr().out == "NAME       N\na          1\nlong one  20\n"


Printed = Callable[..., tuple[str, str]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Print a queue; return what is on both streams."""

    def printed(*jobs: dict[str, object], explain: bool = False, **states: int) -> tuple[str, str]:
        found = {"now": NOW.isoformat(), "total": sum(states.values()), "states": states}
        _print_queue({**found, "jobs": list(jobs)}, explain=explain)
        return capsys.readouterr()

    return printed


def test_empty_queue_names_where_ended_jobs_are(printed: Printed) -> None:
    assert "`shunter history`" in printed()[1]


def test_what_is_not_shown_is_counted(printed: Printed) -> None:
    jobs = (row(1), row(2, "no_capacity"))
    out, errors = printed(*jobs, explain=True, running=1, waiting=1199)
    assert errors == "1,200 jobs: 1 running, 1,199 waiting; 1,198 more are not shown\n"
    assert out.splitlines()[-1] == (
        "j2: rank 1; too few GPUs are free; needs 2, 1 free; held back by j1"
    )


def test_queue_says_what_sized_jobs_have(printed: Printed) -> None:
    """The column is there where somebody has what he did not ask for."""
    sized = {**row(1), "cpus_held": 2.5, "memory_mb_held": 12000}
    asked = {**row(2), "cpus": 1.0, "cpus_held": 1.0}
    for jobs, has_column in (([asked], False), ([sized, asked], True)):
        out, _ = printed(*jobs)
        assert ("WITH" in out) is has_column
        assert ("2.5 CPUs, 12,000 MB" in out) is has_column


def test_queue_says_who_has_a_turn_and_which_part_of_the_time(printed: Printed) -> None:
    """The columns are there where somebody takes turns; a job with GPUs of its own has none."""
    turns = {"is_on": True, "fair_share": 4 / 6, "used": 0.65, "held_s": 600.0}
    first, second = turns, {**turns, "is_on": False, "used": None}
    jobs = [{**row(1), "turns": first}, {**row(2), "turns": second}, row(3)]

    lines = [line.split() for line in printed(*jobs)[0].splitlines()]

    assert [line[-4:-1] for line in lines[:3]] == [
        ["TURN", "FAIR-SHARE", "USED"],
        ["now", "0.667", "0.650"],
        ["waits", "0.667", "–"],
    ]
    assert lines[3][-4:] == ["–"] * 4
    assert "TURN" not in printed(row(3))[0]
