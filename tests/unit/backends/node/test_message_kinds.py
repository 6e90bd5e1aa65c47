"""A null in place of what a kind of message or note needs is no message of that kind."""

import json
from typing import Any

import pytest

from shunter.backends.node import KINDS_NOTED, KINDS_SAID, JobMessage, Note, WrongMessageError
from shunter.backends.node.host import gpus_in

SAID: dict[str, Any] = {"rank": 0, "step": 7, "ranks": 2, "turn": 1}
NOTED: dict[str, Any] = {"n": 1, "at_ns": 5, "mode": "signal", "count": 3, "cause": "c", "mask": 1}


@pytest.mark.parametrize(
    ("what", "name"), [(what, name) for what, (needed, _) in KINDS_SAID.items() for name in needed]
)
def test_null_is_no_field_of_what_a_job_says(what: str, name: str) -> None:
    assert JobMessage.decoded({"what": what, **SAID}).what == what
    with pytest.raises(WrongMessageError, match="is missing"):
        JobMessage.decoded({"what": what, **SAID, name: None})


@pytest.mark.parametrize(
    ("what", "name"), [(what, name) for what, (needed, _) in KINDS_NOTED.items() for name in needed]
)
def test_null_is_no_field_of_a_note(what: str, name: str) -> None:
    assert Note.decoded({"what": what, **NOTED}).what == what
    with pytest.raises(WrongMessageError, match="is missing"):
        Note.decoded({"what": what, **NOTED, name: None})


def test_gpu_that_says_what_none_does_hides_no_other() -> None:
    good = {"index": 0, "faults": {}, "uuid": "GPU-a", "utilisation": 3}
    odd = {"index": 1, "faults": {}, "uuid": "GPU-b", "utilisation": 4e9}
    answer = {"gpus": [good, odd], "by": "NVML", "code": 0}
    first, second = gpus_in(f"\nGPUS {json.dumps(answer)}").gpus
    assert (first.uuid, second.uuid) == ("GPU-a", None)
    assert (second.index, list(second.faults)) == (1, ["device"])
