"""What is said of a body that is wrong: its faults, and none that only follow from these."""

from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from shunter.api import ProposalBody, usage_error


def _refused_control(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected no control characters")
    return text


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        ([{"gpu1": 0}], "candidates.0.gpu1: Input should be greater than or equal to 1"),
        ([{}], "candidates.0: Dictionary should have at least 1 item after validation, not 0"),
        ([], "candidates: Tuple should have at least 1 item after validation, not 0"),
    ],
)
def test_a_wrong_mask_is_one_fault(candidates: list[dict[str, int]], said: str) -> None:
    body = {"job_id": "j1", "version": 1, "candidates": candidates}
    assert str(usage_error(_refused(ProposalBody, body), "body")) == f"the body is wrong: {said}"


class _Named(BaseModel):
    name: Annotated[str, Field(max_length=3), AfterValidator(_refused_control)]


@pytest.mark.parametrize(
    ("name", "said"),
    [("long", "expected at most 3 characters"), ("\a", "expected no control characters")],
)
def test_fault_is_said_in_plain_words(name: str, said: str) -> None:
    told = str(usage_error(_refused(_Named, {"name": name}), "body"))
    assert told == f"the body is wrong: name: {said}"


def test_faults_of_two_candidates_are_two() -> None:
    body = {"job_id": "j1", "version": 1, "candidates": [{"a": 0}, {"b": -1}]}
    lines = str(usage_error(_refused(ProposalBody, body), "body")).splitlines()
    assert lines[0] == "the body is wrong in 2 places"
    assert [line.split(":")[0] for line in lines[1:]] == ["candidates.0.a", "candidates.1.b"]


def _refused(model: type[BaseModel], body: object) -> ValidationError:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(body, strict=False)
    return refused.value
