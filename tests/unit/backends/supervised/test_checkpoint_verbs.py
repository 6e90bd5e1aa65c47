"""What a host answers to a verb about checkpoints is somebody else's data."""

import pytest

from shunter.backends.live import StaysError, read_answer
from shunter.errors import BackendError
from shunter.events import JobId, LaunchFailed, encode_payload


@pytest.mark.parametrize(
    "line", [b"", b"no JSON", b"[" * 5000, b"[]", b"7", b"null", b'{"error": "x"', b'"\\ud800"']
)
def test_answer_that_is_no_object_is_said_to_be_none(line: bytes) -> None:
    with pytest.raises(BackendError, match="host n0 said what is no answer"):
        read_answer("n0", line)


def test_cause_with_names_of_files_can_be_recorded_and_is_not_endless() -> None:
    """Names of any bytes come as half characters, which no event can hold."""
    line = b'{"error": "it is not there: \\udcff\\udcfe' + b"x" * 100_000 + b'"}'
    with pytest.raises(BackendError) as raised:
        read_answer("n0", line)
    cause = str(raised.value)
    assert cause.startswith("host n0: it is not there: \\udcff\\udcfe")
    assert len(cause) < 1100
    encode_payload([LaunchFailed(0, JobId("j0"), 1, cause)])


def test_refusal_by_size_is_known_by_its_field_and_not_by_its_words() -> None:
    with pytest.raises(StaysError, match="host n0: too much"):
        read_answer("n0", b'{"error": "too much", "is_too_large": true}')
    for line in (b'{"error": "it stays where it is"}', b'{"error": "x", "is_too_large": "true"}'):
        with pytest.raises(BackendError) as raised:
            read_answer("n0", line)
        assert not isinstance(raised.value, StaysError)
