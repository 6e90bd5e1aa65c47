"""Bodies of requests: what they become, and what is said of those that are wrong."""

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from shunter.api import (
    SAME_FIELDS,
    ArrayBody,
    ProposalBody,
    SubmitBody,
    array_of,
    submission_of,
    usage_error,
)
from shunter.client import JobOptions
from shunter.errors import UsageError
from shunter.events import Level


def body(**fields: Any) -> SubmitBody:
    return SubmitBody.model_validate({"command": ("echo", "hunter2 x"), **fields})


def test_units_of_the_body_become_those_of_the_core() -> None:
    found = submission_of(body(cpus=1.5, memory_mb=2, time_limit_s=0.25), "k")
    spec = found.spec
    assert (spec.cpus_milli, spec.memory_mb, spec.time_limit_us) == (1500, 2, 250_000)
    assert found.key == "k"


@pytest.mark.parametrize(
    ("said", "has_gpus", "resources"),
    [
        ({}, True, (1, 0)),
        ({}, False, (0, 1000)),
        ({"cpus": 2}, False, (0, 2000)),
        ({"gpus": 1}, False, (1, 0)),
        ({"gpu_types": ("h100",)}, False, (1, 0)),
        ({"gpus": 0}, True, (0, 1000)),
    ],
)
def test_job_that_says_no_gpus_has_one_where_there_are_any(
    said: dict[str, Any], has_gpus: bool, resources: tuple[int, int]
) -> None:
    spec = submission_of(body(**said), "", has_gpus=has_gpus).spec
    assert (spec.gpus, spec.cpus_milli) == resources


def test_every_field_of_a_body_is_one_of_the_job_or_said_otherwise() -> None:
    converted = {"command", "gpus", "cpus", "time_limit_s", "checkpoint_interval_s", "depends_on"}
    beside = {"array", "environment", "secrets", "dry_run"}
    assert SubmitBody.model_fields.keys() - SAME_FIELDS == converted | beside


def test_a_program_may_say_every_field_of_a_body() -> None:
    otherwise = {"command", "depends_on"} ^ {"after", "key"}
    assert JobOptions.__annotations__.keys() ^ SubmitBody.model_fields.keys() == otherwise


def test_secret_is_taken_out_of_the_command() -> None:
    found = submission_of(body(environment={"T": "hunter2"}, secrets=("T",)), "")
    assert found.spec.command == ("echo", "{secret:T} x")
    assert found.environment == {"T": "hunter2"}


def refusal(fields: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        SubmitBody.model_validate({"command": ("true",), **fields})
    return str(usage_error(caught.value, "body"))


@pytest.mark.parametrize("name", ["1x", "a b", "a-b", "", "x\n"])
def test_name_of_a_variable_is_refused_in_words(name: str) -> None:
    said = refusal({"environment": {name: "2"}})
    assert f"{name!r} is no name of an environment variable: expected letters, digits" in said
    assert "pattern" not in said


def test_too_many_variables_are_refused_with_what_to_do() -> None:
    said = refusal({"environment": {f"V{number}": "" for number in range(1025)}})
    assert "expected 1,024 variables at most, not 1,025: unset what" in said
    assert "--export none" in said


def test_short_secret_would_be_found_everywhere() -> None:
    with pytest.raises(UsageError) as caught:
        submission_of(body(environment={"T": "x"}, secrets=("T",)), "")
    assert "4 or more" in str(caught.value)


def test_tasks_of_an_array_differ_in_index_name_and_key() -> None:
    request = submission_of(body(name="sweep", environment={"A": "1"}), "k")
    found = array_of(request, ArrayBody(first=2, last=6, step=2))
    assert [task.spec.array_index for task in found] == [2, 4, 6]
    assert [(task.spec.name, task.key) for task in found[:2]] == [
        ("sweep/2", "k/2"),
        ("sweep/4", "k/4"),
    ]
    assert found[2].environment == {"A": "1"}


CURVE = {"gpus": 4, "shape_tolerance": (((4,), 1.0), ((2, 2), 0.72))}


def test_contract_of_a_body_is_that_of_the_job() -> None:
    said = {"interference": 0.1, "migratable": False, "tolerance": ((Level.rack, 0.8),)}
    found = submission_of(body(**CURVE, **said, min_speed=0.7), "")
    found.check()

    assert found.spec.demand().shapes == ((4,), (2, 2))
    assert found.spec.demand().max_level is Level.rack
    assert found.spec.demand().apart is True
    assert not found.spec.migratable


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min_speed": 0.7}, "expected a curve that it is the floor of"),
        ({"gpus": 4, "shape_tolerance": (((2, 2), 0.72),)}, "shape_tolerance: expected the packed"),
        ({"tolerance": ((Level.rack, 0.5), (Level.domain, 0.6))}, "tolerance: domain has 0.6"),
        (
            {"tolerance": ((Level.rack, 0.5),), "min_speed": 0.5, "max_level": Level.server},
            "expected one of them",
        ),
        ({**CURVE, "shapes": ((4,),)}, "expected no shapes beside it"),
    ],
)
def test_contract_that_cannot_be_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        submission_of(body(**fields), "").check()


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
