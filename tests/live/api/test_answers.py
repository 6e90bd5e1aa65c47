"""Answers of a real daemon: why jobs wait, held against the queue and against each other."""

import json
from typing import Any

import pytest

from tests.live.api.serving import Served, awaited

pytestmark = pytest.mark.live


def submitted(served: Served, *words: str) -> str:
    found = served.run("submit", "--parsable", *words)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def why(served: Served, job_id: str, *words: str) -> dict[str, Any]:
    found = served.run("why", job_id, "--json", *words)
    assert found.returncode == 0, found.stderr
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def test_a_waiting_job_is_told_its_place_and_the_work_ahead(served: Served) -> None:
    """Of what runs it is known how long it may; of what waits ahead of it, it is not."""
    running = submitted(served, "-g", "3", "--time", "1h", "--", "sleep", "60")
    awaited(lambda: served.handle(running).state() == "running")
    ahead = submitted(served, "-g", "4", "--", "true")
    waiting = submitted(served, "-g", "4", "--", "true")

    awaited(lambda: why(served, waiting)["reason"]["name"] != "waiting_for_round")
    found = why(served, waiting)

    assert (found["rank"]["position"], found["rank"]["ahead"]) == (2, [ahead])
    assert found["rank"]["waiting_ahead"] == {
        "jobs": 1,
        "gpus": 4,
        "left_gpu_s": 0,
        "unknown": 1,
        "limited": 0,
    }
    left = found["rank"]["running_ahead"]
    assert (left["jobs"], left["gpus"], left["unknown"], left["limited"]) == (1, 3, 0, 1)
    assert "left at most, by the time limit" in served.run("why", waiting, "--long").stdout
    assert 3 * 3500 < left["left_gpu_s"] <= 3 * 3600
    assert (found["evidence"]["free"], found["evidence"]["missing"]) == (1, 3)
    assert found["needs_at_least"][0].startswith("3 more GPUs come free to it")
    assert found["would_start_if"] == []
    assert found["became"] is None


def test_blockers_are_those_that_still_run(served: Served) -> None:
    short = submitted(served, "-g", "2", "--", "sleep", "60")
    long = submitted(served, "-g", "2", "--", "sleep", "60")
    awaited(lambda: served.handle(long).state() == "running")
    waiting = submitted(served, "-g", "4", "--", "true")
    asked = why(served, waiting)
    assert {each["id"] for each in asked["evidence"]["blockers"]} == {short, long}
    served.run("cancel", short)
    awaited(lambda: served.handle(short).state() == "cancelled")

    assert [each["id"] for each in why(served, waiting)["evidence"]["blockers"]] == [long]
    rows = json.loads(served.run("queue", "--json").stdout)["jobs"]
    reason = next(row["reason"] for row in rows if row["id"] == waiting)
    assert reason["blockers"] == [long]
    assert (reason["needed"], reason["free"]) == (4, 2)


def test_the_past_says_what_became_of_a_job(served: Served) -> None:
    running = submitted(served, "-g", "4", "--", "sleep", "60")
    awaited(lambda: served.handle(running).state() == "running")
    waiting = submitted(served, "-g", "1", "--", "true")
    then = why(served, waiting)["at"]["seq"]
    served.run("cancel", running)
    awaited(lambda: served.handle(waiting).state() == "finished")

    found = why(served, waiting, "--at", f"e{then}")

    assert found["became"]["what"] == "started"
    assert [each["id"] for each in found["became"]["ended"]] == [running]
    whole = served.run("why", waiting, "--history").stdout
    assert "attempt 1 on n0[" in whole
    assert "T+" not in whole


def test_a_drained_server_and_a_full_array_are_told_as_such(served: Served) -> None:
    running = submitted(served, "-g", "1", "--", "sleep", "60")
    awaited(lambda: served.handle(running).state() == "running")
    first, second = (
        served.run("submit", "--parsable", "--array", "0-1%1", "--", "sleep", "60")
        .stdout.strip()
        .split("\n")
    )
    awaited(lambda: served.handle(first).state() == "running")
    assert why(served, second)["reason"]["name"] == "array_limit"
    assert (
        f"1 task of array {first} may run at once, and {first} comes first"
        in (why(served, second)["details"][0])
    )
    assert served.run("nodes", "drain", "n0").returncode == 0
    waiting = submitted(served, "-g", "2", "--", "true")

    awaited(lambda: why(served, waiting)["reason"]["name"] == "node_drained")
    assert why(served, waiting)["details"][0].endswith("0 are in service: n0 is drained")
    explained = served.run("queue", "--explain").stdout
    assert f"{waiting}: rank 1; too few GPUs are in service; needs 2, 0 free; n0 is drained" in (
        explained
    )
    assert "lost" not in explained
