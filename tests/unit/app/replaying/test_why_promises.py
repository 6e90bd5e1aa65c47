"""`why` under EASY backfilling: what a promise counts on, and whom it keeps from free GPUs."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import make_config
from shunter.run import simulate

KEY = "policy.params.fifo_easy.default_limit"


def logged(folder: Path, limits: dict[str, int], policy: str = "fifo_easy", **params: str) -> str:
    """Simulate a and b on 4 GPUs each; c needs 8, and e one, for 100 s; return the log."""
    rows = [("a", 0, 4, 3600), ("b", 0, 4, 1800), ("c", 60, 8, 600), ("e", 180, 1, 100)]
    lines = ["job_id,submit_s,gpus,duration_s,time_limit_s"]
    lines += [
        f"{name},{at},{gpus},{lasts},{limits.get(name, '')}" for name, at, gpus, lasts in rows
    ]
    trace, url = folder / "jobs.csv", str(folder / f"{policy}.db")
    trace.write_text("\n".join([*lines, ""]), encoding="utf-8")
    tree = {
        "cluster": {"nodes": [{"name": "g[1-2]", "gpus": 4}]},
        "workload": {"trace": str(trace)},
        "policy": {"name": policy, "trigger": "event", "params": {policy: params}},
        "log": {"url": url},
    }
    simulate(make_config(tree))
    return url


def said(*command: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*command, "--json"])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def why(url: str, job_id: str) -> dict[str, Any]:
    return said("why", job_id, "--log", url, "--at", "2000s")


@pytest.mark.parametrize(
    ("at", "limits", "params", "words"),
    [
        (
            "100s",
            {},
            {},
            (
                "T+8760:00:00 on; the promise counts on time limits, and none of the 2 jobs that "
                f"have GPUs declares one; each counts as running for 365d ({KEY})"
            ),
        ),
        (
            "100s",
            {"b": 1900},
            {"default_limit": "90m"},
            (
                "T+01:30:00 on; the promise counts on time limits, and 1 of the 2 jobs that have "
                f"GPUs declares none, and counts as running for 1h 30m ({KEY})"
            ),
        ),
        (
            "2000s",
            {},
            {},
            (
                "T+8760:00:00 on; the promise counts on time limits, and the job that has GPUs "
                f"declares none, and counts as running for 365d ({KEY})"
            ),
        ),
    ],
)
def test_a_promise_tells_which_limits_it_counts_on(
    at: str, limits: dict[str, int], params: dict[str, str], words: str, tmp_path: Path
) -> None:
    url = logged(tmp_path, limits, **params)
    found = said("why", "c", "--log", url, "--at", at)
    assert found["details"][-1] == f"GPUs are promised to it from {words}"


def test_a_short_job_without_a_limit_is_told_that_it_would_outlast_the_promise(
    tmp_path: Path,
) -> None:
    """It is true: with a limit that ends before the promise it is started."""
    found = why(logged(tmp_path, {}), "e")
    assert found["reason"]["name"] == "outranked"
    assert found["details"][-1] == (
        "it is not started before c, to which GPUs are promised from T+8760:00:00 on: it declares "
        f"no time limit, and counts as running for 365d ({KEY}), so it would outlast that"
    )
    limited = tmp_path / "limited"
    limited.mkdir()
    assert why(logged(limited, {"e": 120}), "e")["phase"] == "finished"


def test_a_job_whose_limit_is_longer_than_the_promise_is_told_so(tmp_path: Path) -> None:
    found = why(logged(tmp_path, {"a": 4000, "e": 7200}), "e")
    assert found["details"][-1].endswith(
        "from T+01:06:40 on: by its time limit it may run for 2h 00m, so it would outlast that"
    )


def test_a_policy_without_promises_says_nothing_of_them(tmp_path: Path) -> None:
    found = why(logged(tmp_path, {}, "fifo"), "e")
    assert "promise" not in json.dumps(found["details"])


def test_diff_says_what_the_promise_counts_on(tmp_path: Path) -> None:
    urls = [logged(tmp_path, {}, name) for name in ("fifo", "fifo_easy")]
    seen = said("diff", *urls)["first_decision"]["seen"]
    words = (
        "the promise counts on time limits, and none of the 2 jobs that have GPUs declares one; "
        f"each counts as running for 365d ({KEY})"
    )
    assert [seen[side]["promise"] for side in "ab"] == ["", words]
    assert f"        {words}\n" in CliRunner().invoke(app, ["diff", *urls]).stdout
