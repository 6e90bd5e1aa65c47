"""What people are told of ends, forecasts, empty queues, and scripts that are wrong."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from shunter.cli import app, end_of, ended_by, forecast_trust, local_time, read_script
from shunter.cli.jobs import _attempt, _failed_launch, _sample, _service, _warning


@pytest.mark.parametrize(
    ("cause", "code", "told"),
    [
        ("exit", 2, ["exit code 2"]),
        ("time limit", None, ["time limit"]),
        ("lost", 137, ["lost", "exit code 137"]),
        ("", None, []),
    ],
)
def test_end_says_cause_and_code_once(cause: str, code: int | None, told: list[str]) -> None:
    assert ended_by(cause, code) == told


@pytest.mark.parametrize(
    ("state", "cause", "code", "told"),
    [
        ("cancelled", "cancelled", None, "j1: cancelled"),
        ("timeout", "timeout", 143, "j1: timeout, exit code 143"),
        ("lost", "supervisor lost", None, "j1: supervisor lost"),
        ("failed", "exit", 2, "j1 failed: exit code 2"),
    ],
)
def test_end_says_its_state_once_and_moves_no_cursor(
    state: str, cause: str, code: int | None, told: str
) -> None:
    document = {"id": "j1", "state": state, "cause": cause, "exit_code": code}
    assert end_of(document, "") == told
    assert end_of(document, "\x1b[2J") == f"{told}; last line: ?[2J"


def test_profile_says_of_which_attempt_it_is_and_when_it_was_measured() -> None:
    sample = {"attempt": 1, "step": 40, "cpus": 1.5}
    now = datetime.fromisoformat("2026-11-22T12:30:00+00:00")

    said = _sample(sample, "2026-11-22T10:00:00+00:00", now)

    when = local_time("2026-11-22T10:00:00+00:00")
    assert said == f"step 40, 1.5 CPUs (attempt 1, at {when}, 02:30:00 ago)"


def test_warning_says_of_which_attempt_it_is_and_where_the_job_was() -> None:
    told = {"text": "the order is drawn again", "attempt": 2, "step": 40, "at": "…"}
    assert _warning(told) == "the order is drawn again (attempt 2, step 40)"
    assert _warning({**told, "step": None}) == "the order is drawn again (attempt 2)"


@pytest.mark.parametrize(
    ("told", "words"),
    [({"service_gpu_s": 5_400.0}, "1.50 GPU-hours"), ({"service_gpu_s": None}, ""), ({}, "")],
)
def test_service_is_told_in_gpu_hours_where_it_is_known(
    told: dict[str, object], words: str
) -> None:
    assert _service(told) == words


def submitted(script: Path, *options: str) -> Result:
    """Submit a script with an option that is refused last, before any daemon is asked."""
    return CliRunner().invoke(app, ["submit", "--export", "some", *options, str(script)])


@pytest.mark.parametrize(
    ("line", "told"),
    [("--gpu 2", "No such option: --gpu"), ("--gpus two", "valid integer")],
)
def test_wrong_option_of_a_script_is_named_by_file_and_line(
    line: str, told: str, tmp_path: Path
) -> None:
    script = tmp_path / "train.sh"
    script.write_text(f"#!/bin/sh\n#SHUNTER --name a\n#SHUNTER {line}\ntrue\n")
    refused = submitted(script)
    assert refused.exit_code == 2
    assert f"train.sh:3: {line}: " in refused.stderr
    assert told in refused.stderr
    script.write_text("#!/bin/sh\n#SHUNTER --name a\ntrue\n")
    assert "train.sh:" not in submitted(script, "--gpu", "2").output


def test_lines_for_another_scheduler_are_told_of(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n#SBATCH --gres=gpu:2\n#SHUNTER --name a\ntrue\n")
    assert "lines that begin with #SBATCH are for another scheduler" in submitted(script).stderr
    script.write_text("#!/bin/sh\n# SBATCH was here\ntrue\n#SBATCH --gres=gpu:2\n")
    assert read_script(script).strange == ""


def test_negative_priority_needs_no_mark() -> None:
    asked = CliRunner().invoke(app, ["priority", "j1", "-5", "--url", "ftp://nobody"])
    assert "ftp://nobody" in asked.stderr
    wrong = CliRunner().invoke(app, ["priority", "j1", "--high", "--url", "ftp://nobody"])
    assert "Invalid value for 'N'" in wrong.stderr


@pytest.mark.parametrize(
    ("saved_at", "words"), [(None, "at most 33 s"), ("2026-11-22T10:00:00+00:00", "33 s")]
)
def test_lost_work_is_an_upper_bound_where_no_checkpoint_was_told(
    saved_at: str | None, words: str
) -> None:
    one: Any = {
        **dict.fromkeys(("suspend_asked_at", "started_at", "ended_at", "exit_code", "suspend_s")),
        "attempt": 1,
        "where": "n0",
        "ended_by": "suspended",
        "escalated_to": [],
        "lost_s": 33.0,
        "saved_at": saved_at,
        "step": None,
        "memory_kills": 0,
    }
    assert _attempt(one)[4] == f"suspended, {words} of work lost"


def test_failed_launch_is_told_in_full_with_the_next_try_until_one_has_started() -> None:
    cause = "no connection to host n0: " + "x" * 300
    at, never = "2026-11-22T10:00:00+00:00", {"started_at": None, "ended_at": None, "ended_by": ""}
    failed = {
        "attempt": 2,
        "started_at": None,
        "ended_at": at,
        "ended_by": f"not launched: {cause}",
    }
    granted, started = {**never, "attempt": 3}, {**never, "attempt": 3, "started_at": at}
    told = f"attempt 2 was not launched: {cause}"
    assert _failed_launch({"attempts": [failed, granted], "next_try_at": None}) == told
    assert _failed_launch({"attempts": [failed, started], "next_try_at": None}) == ""
    assert _failed_launch({"attempts": [], "next_try_at": at}) == ""
    said = _failed_launch({"attempts": [failed], "next_try_at": at})
    assert said == f"{told}; the next try is at {local_time(at)} or later"


def _found(ended: int | None) -> dict[str, Any]:
    none = {"jobs": 3, "by_p50": 0, "by_p90": 0, "share_by_p90": 0.0}
    ends = none if ended is None else {"ended": ended, **none}
    accuracy = {"moments": 1, **none, "jobs": 0, "ends": ends}
    found = {"samples": 1, "seq": 9, "now": "now", "assumptions": []}
    return {**found, "accuracy": accuracy}


def test_no_share_of_ends_is_said_where_no_job_has_ended() -> None:
    assert forecast_trust(_found(0))[2] == "accuracy of ends: not known yet, as no job has ended"
    assert forecast_trust(_found(1))[2].startswith("accuracy of ends: 0.0 % of 3 past jobs ended")
    assert forecast_trust(_found(None))[2].startswith(
        "accuracy of ends: 0.0 % of 3 past jobs ended"
    )


def test_one_is_counted_as_one() -> None:
    said = forecast_trust(_found(0))
    assert said[0] == "simulated 1 time from e9 on, now"
    assert "at 1 past moment, from" in said[3]
