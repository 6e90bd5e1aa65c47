"""`--after` the first task of an array waits for all of its tasks."""

import orjson
import pytest

from shunter.errors import UsageError
from tests.live.api.serving import PATIENCE_S, Served

pytestmark = pytest.mark.live

FAILS_IN_THE_SECOND = 'test "$SHUNTER_ARRAY_INDEX" != 1'


def array(shared: Served, tasks: str, *command: str) -> list[str]:
    found = shared.run("submit", "--parsable", "--array", tasks, "--", *command)
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def after(shared: Served, *words: str) -> str:
    found = shared.run("submit", "--parsable", *words, "--", "true")
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def needed(shared: Served, job_id: str) -> list[tuple[str, str]]:
    """Return what a job waits for, as it is recorded."""
    said = orjson.loads(shared.run("show", "--json", job_id).stdout)["spec"]["depends_on"]
    return [(each["job_id"], each.get("when", "ok")) for each in said]


def test_job_after_an_array_waits_for_all_of_its_tasks(served: Served) -> None:
    go = served.root / "go"
    waits = f'while [ "$SHUNTER_ARRAY_INDEX" = 2 ] && [ ! -e {go} ]; do sleep 0.05; done'
    ids = array(served, "0-2", "sh", "-c", waits)
    follower = after(served, "--after", f"{ids[0]}:ok")
    for first in ids[:2]:
        assert served.handle(first).result(PATIENCE_S) == 0
    assert served.handle(follower).describe()["state"] == "waiting"
    assert needed(served, follower) == [(each, "ok") for each in ids]
    go.touch()
    assert served.handle(follower).result(PATIENCE_S) == 0


def test_job_after_an_array_that_failed_in_one_task_does_not_start(shared: Served) -> None:
    """The tasks have ended when it is submitted: no state knows them any more, the log does."""
    ids = array(shared, "0-3", "sh", "-c", FAILS_IN_THE_SECOND)
    for each in ids:
        shared.handle(each).exception(PATIENCE_S)
    follower = after(shared, "--after", ids[0])
    assert needed(shared, follower) == [(each, "ok") for each in ids]
    whatever = after(shared, "--after", f"{ids[0]}:any")
    assert shared.handle(whatever).result(PATIENCE_S) == 0
    assert shared.handle(follower).wait()["state"] == "cancelled"


def test_job_after_one_that_failed_is_told_at_submission(shared: Served) -> None:
    failed = after_end(shared, "sh", "-c", "exit 7")
    why = (
        f"it cannot start, and is cancelled at once: it needs job {failed} to end well, which "
        f"ended as failed (exit 7); `--after {failed}:any` takes any end\n"
    )
    tried = shared.run("submit", "--dry-run", "--after", failed, "--", "true")
    assert (tried.returncode, tried.stdout, tried.stderr) == (0, why, "")
    made = shared.run("submit", "--parsable", "--after", failed, "--", "true")
    assert (made.returncode, made.stderr) == (0, why)
    assert shared.handle(made.stdout.strip()).wait()["state"] == "cancelled"
    whatever = shared.run("submit", "--dry-run", "--after", f"{failed}:any", "--", "true")
    assert whatever.stdout.startswith("it would be accepted")


def after_end(shared: Served, *command: str) -> str:
    """Return the id of a job that has ended."""
    job_id = shared.run("submit", "--parsable", "--", *command).stdout.strip()
    shared.handle(job_id).wait(PATIENCE_S)
    return job_id


def test_other_tasks_of_an_array_mean_themselves(shared: Served) -> None:
    ids = array(shared, "0-2", "true")
    assert needed(shared, after(shared, "--after", ids[1])) == [(ids[1], "ok")]


def test_submission_after_an_array_is_made_once_under_its_key(shared: Served) -> None:
    ids = array(shared, "0-2", "true")
    words = ("--after", ids[0], "--dedupe-key", "after-it")
    assert after(shared, *words) == after(shared, *words)


def test_array_after_a_large_array_is_refused_with_what_to_do(shared: Served) -> None:
    ids = array(shared, "0-99", "true")
    with shared.client() as client, pytest.raises(UsageError, match="submit one job after that"):
        client.submit_many(["true"], array=(0, 1000, 1, None), after=[ids[0]])
