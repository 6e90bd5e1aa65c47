"""Ids of jobs: which are used up, suggested and completed; logs in which no job finished."""

import subprocess
import sys

import pytest

from tests.live.api.serving import PATIENCE_S, Served, environment

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    "words",
    [
        ("--queue", "no-such-queue", "--", "true"),
        ("--queue", "closed", "--after", "j99999", "--", "true"),
        ("--array", "0-3", "--queue", "no-such-queue", "--", "true"),
        ("--gpus", "2", "--shape", "3", "--", "true"),
        ("--gpus", "5", "--", "true"),
        ("--gpus", "2", "--shape", "1+1", "--", "true"),
        ("--type", "h100", "--", "true"),
        ("--gpus", "1", "--cpus", "9999999", "--", "true"),
        ("--gpus", "1", "--memory", "2000000G", "--", "true"),
        ("--queue", "closed", "--", "true"),
        ("--array", "0-3", "--gpus", "5", "--", "true"),
    ],
)
def test_refused_submission_uses_up_no_id(shared: Served, words: tuple[str, ...]) -> None:
    before = shared.run("submit", "--parsable", "--", "true").stdout.strip()
    refused = shared.run("submit", *words)
    assert refused.returncode in (2, 3, 5)
    after = shared.run("submit", "--parsable", "--", "true").stdout.strip()
    assert int(after.removeprefix("j")) == int(before.removeprefix("j")) + 1


def test_what_can_never_run_is_refused_in_the_words_of_a_dry_run(shared: Served) -> None:
    never = ("--gpus", "5", "--", "true")
    tried, made = shared.run("submit", "--dry-run", *never), shared.run("submit", *never)
    assert (made.returncode, made.stderr) == (tried.returncode, tried.stderr)
    assert "it needs 5 GPUs, and there are 4" in made.stderr


@pytest.mark.parametrize("command", ["cancel", "show", "why", "logs", "suspend"])
def test_number_of_a_job_suggests_its_id(shared: Served, command: str) -> None:
    shared.run("submit", "--", "true")
    found = shared.run(command, "1")
    assert (found.returncode, found.stderr) == (3, "error: there is no job 1: did you mean j1?\n")


def test_number_of_no_job_suggests_none(shared: Served) -> None:
    found = shared.run("logs", "99977")
    said = "error: there is no job 99977; `shunter queue` lists them\n"
    assert (found.returncode, found.stderr) == (3, said)


def test_ids_of_jobs_are_completed(shared: Served) -> None:
    job_id = shared.run("submit", "--parsable", "-J", "sweep", "--", "true").stdout.strip()
    assert shared.handle(job_id).result(PATIENCE_S) == 0
    for command in ("cancel", "show", "logs", "why"):
        asked = {
            "_SHUNTER_COMPLETE": "complete_bash",
            "COMP_WORDS": f"shunter {command} j",
            "COMP_CWORD": "2",
        }
        found = subprocess.run(
            [sys.executable, "-m", "shunter"],
            env=environment(SHUNTER_URL=shared.url, **asked),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert job_id in found.stdout.splitlines(), (command, found.stderr)


def test_what_if_of_a_log_of_cancelled_jobs_says_so(served: Served) -> None:
    for _ in range(2):
        job_id = served.run("submit", "--parsable", "--", "sleep", "600").stdout.strip()
        served.run("cancel", job_id)
        assert served.handle(job_id).wait(PATIENCE_S)["state"] == "cancelled"
    served.end()
    log = str(served.root / "log.db")
    ends: list[str] = []
    for more in ((), ("--from", "0m"), ("--from", "0m", "--policy", "las")):
        found = served.run("what-if", log, *more)
        ends.append(found.stderr)
        assert found.returncode == 2, found.stdout
        assert "no job finishes after that moment" in found.stderr
    assert all("all 2 that end after it in the log were cancelled" in said for said in ends[1:])
