"""What would make a job start that waits for the ends of others: their good ends are tried too."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from tests.unit.app.forking.worlds import COSTS, simulated, tree

TRACE = """job_id,submit_s,gpus,duration_s,depends_on
first,0,2,3000,
second,0,1,4000,
after,10,1,600,first
last,20,1,600,after
both,30,1,600,first|second
"""


@pytest.fixture(scope="module", params=[{}, {"costs": COSTS}], ids=["instant", "costs"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("logs")
    (folder / "trace.csv").write_text(TRACE, "utf-8")
    workload = {"trace": str(folder / "trace.csv"), "format": "canonical-csv"}
    policy = {"name": "fifo_backfill", "trigger": "event"}
    return simulated(folder, tree("", workload=workload, policy=policy, simulation=request.param))


def asked(log: str, job: str) -> tuple[dict[str, Any], str]:
    words = ["why", job, "--log", log, "--at", "1000s", "--counterfactuals"]
    document = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    return document["counterfactuals"], CliRunner().invoke(app, words).stdout


def test_good_end_of_a_job_that_works_is_tried(log: str) -> None:
    found, text = asked(log, "after")

    (claim,) = found["found"]
    assert (claim["kind"], claim["jobs"]) == ("good_end", ["first"])
    assert claim["starts_us"] >= 1000_000_000
    assert "starts if    first ended well now: at T+00:16:40" in text


def test_good_ends_of_several_are_tried_together(log: str) -> None:
    found, text = asked(log, "both")

    (claim,) = found["found"]
    assert (claim["kind"], claim["jobs"]) == ("good_ends", ["first", "second"])
    assert "starts if    first, second ended well now, all of them: at T+00:16:40" in text


def test_good_end_of_a_job_that_does_not_work_is_said_not_to_be_tried(log: str) -> None:
    found, text = asked(log, "last")

    assert not found["found"]
    assert found["not_tried"] == ["that after ends well, which does not work now (waiting)"]
    assert f"not tried    {found['not_tried'][0]}" in text


def test_what_was_tried_is_told_where_none_of_it_starts_the_job(log: str) -> None:
    found, text = asked(log, "last")

    assert found["tried"] == len(found["tried_words"]) >= 2
    assert f"none of {found['tried']} changes that were tried starts it" in text
    for words in found["tried_words"]:
        assert f"  tried        {words}\n" in text
