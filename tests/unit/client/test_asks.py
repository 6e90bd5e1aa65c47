import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from shunter.client import (
    Client,
    Followed,
    Lines,
    act,
    end_of,
    error_of,
    read,
    submission,
    token_from,
    value_of,
)
from shunter.errors import (
    ConflictError,
    JobFailedError,
    NotFoundError,
    RateLimitedError,
    RefusedError,
    ShunterError,
    UnavailableError,
    UnreachableError,
    UsageError,
)


def test_id_cannot_leave_its_place_in_the_path() -> None:
    assert read("/jobs/{}/logs", "../../etc").path == "/api/v1/jobs/..%2F..%2Fetc/logs"
    assert act("/jobs/{}/cancel", "a?b#c").path == "/api/v1/jobs/a%3Fb%23c/cancel"


def test_parameters_that_say_nothing_are_left_out() -> None:
    assert read("/jobs", user=None, limit=0, follow=True).params == {"limit": "0", "follow": "true"}


@pytest.fixture
def _in_kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_kolkata")
@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("2026-11-28 18:00", "2026-11-28T18:00:00+05:30"),
        ("2026-11-28T18:00:00+00:00", "2026-11-28T18:00:00+00:00"),
        ("20261128", "20261128"),
        ("T+03:12:40", "T+03:12:40"),
        ("0001-01-01", "0001-01-01"),
    ],
)
@pytest.mark.parametrize("name", ["at", "since"])
def test_date_without_offset_is_of_the_time_zone_here(name: str, text: str, asked: str) -> None:
    assert read("/jobs/{}/logs", "j1", **{name: text}).params == {name: asked}


def test_submission_says_what_it_was_told_and_its_key() -> None:
    ask = submission(
        ["echo"], {"gpus": 2, "after": ["j1", ("j2", "any")], "array": (0, 9, 1, 3)}, "k"
    )
    assert ask.headers["Idempotency-Key"] == "k"
    assert orjson.loads(ask.body or b"") == {
        "gpus": 2,
        "command": ["echo"],
        "directory": str(Path.cwd()),
        "environment": {},
        "depends_on": [{"job_id": "j1", "when": "ok"}, {"job_id": "j2", "when": "any"}],
        "array": {"first": 0, "last": 9, "step": 1, "at_once": 3},
    }


@pytest.mark.parametrize("text", ["\xe9", "a\nb", "\x7f"])
def test_key_and_token_that_no_header_holds_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="key: expected printable ASCII"):
        submission(["echo"], {}, text)
    with pytest.raises(UsageError, match="token: expected printable ASCII") as caught:
        Client("tcp:localhost:1", token=text)
    assert text not in str(caught.value), "it is a secret"


def test_job_starts_in_the_folder_that_is_named() -> None:
    ask = submission(["echo"], {"directory": "/srv/data"}, "k")
    assert orjson.loads(ask.body or b"")["directory"] == "/srv/data"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("usage", UsageError),
        ("too_large", UsageError),
        ("unauthenticated", RefusedError),
        ("refused", RefusedError),
        ("not_allowed", UsageError),
        ("conflict", ConflictError),
        ("rate_limited", RateLimitedError),
        ("not_found", NotFoundError),
        ("unavailable", UnavailableError),
        ("failed", ShunterError),
        ("of the future", ShunterError),
    ],
)
def test_problem_is_the_error_it_was(code: str, kind: type[ShunterError]) -> None:
    content = orjson.dumps({"status": 400, "code": code, "detail": "m", "faults": ["f"]})
    error = error_of(400, content)
    assert (type(error), str(error)) == (kind, "m\nf")


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"detail": 5}', b'{"error": {}}'])
def test_what_is_no_daemon_is_unreachable(content: bytes) -> None:
    assert isinstance(error_of(502, content), UnreachableError)
    if content[:1] != b"{":
        with pytest.raises(UnreachableError):
            value_of(read("/jobs"), 200, content)


def test_token_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("# mine\nsecret ana\n", encoding="utf-8")
    assert token_from({"SHUNTER_TOKEN": "t", "SHUNTER_TOKEN_FILE": str(path)}) == "t"
    assert token_from({"SHUNTER_TOKEN_FILE": str(path)}) == "secret"
    assert token_from({}) is None
    with pytest.raises(UsageError):
        token_from({"SHUNTER_TOKEN_FILE": str(tmp_path / "none")})


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_stream_is_put_together_from_pieces_of_any_size(size: int) -> None:
    """Goal: a line ends at a line feed alone, whatever else ends lines in Unicode."""
    text = (
        "retry: 1000\n\n: still there\n\nid: 7\r\nevent: JobFinished\r\n"
        'data: {"a":\ndata: "\u2028\x85"}\n\nid: 8\n'
    ).encode()
    lines = Lines()
    pieces = [text[begin : begin + size] for begin in range(0, len(text), size)]
    found = [event for piece in pieces for event in lines.take(piece)]
    assert found == [Followed(7, "JobFinished", {"a": "\u2028\x85"})]


def ended(state: str, code: int | None = None) -> dict[str, Any]:
    return {"id": "j1", "state": state, "cause": "exit", "exit_code": code}


def test_worth_of_an_end_is_a_code_or_an_error() -> None:
    from concurrent.futures import CancelledError

    assert end_of(ended("finished", 0), None).worth() == 0
    with pytest.raises(CancelledError):
        end_of(ended("cancelled"), None).worth()
    for state in ("failed", "timeout", "rejected"):
        with pytest.raises(JobFailedError) as caught:
            end_of(ended(state, 7), None).worth()
        assert caught.value.exit_status == 7


@pytest.mark.parametrize("cpus", [float("inf"), float("-inf"), float("nan")])
def test_number_that_a_body_cannot_hold_is_refused(cpus: float) -> None:
    with pytest.raises(UsageError, match=f"cpus: expected a finite number, not {cpus}"):
        submission(["true"], {"gpus": 1, "cpus": cpus}, "key")


@pytest.mark.parametrize("number", [2**63, -(2**63), 99_999_999_999_999_999_999])
def test_whole_number_that_no_log_holds_is_refused(number: int) -> None:
    with pytest.raises(UsageError, match=f"gpus: expected at most .*, not {number}"):
        submission(["echo"], {"gpus": number}, "k")
    with pytest.raises(UsageError, match=f"array: expected at most .*, not {number}"):
        submission(["echo"], {"array": (0, number, 1, None)}, "k")
    with pytest.raises(UsageError, match=f"gpus: expected at most .*, not {number}"):
        act("/jobs/{}/resize", "j1", body={"gpus": number})
