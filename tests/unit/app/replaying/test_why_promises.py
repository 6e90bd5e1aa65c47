"""`why` under EASY backfilling: what a promise counts on, and whom it keeps from free GPUs."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import make_config
from shunter.run import simulate

KEY = "policy.params.fifo_easy.default_limit"


def logged(folder: Path, policy: str) -> str:
    """Simulate a and b on 4 GPUs each; c needs 8, and e one, for 100 s; return the log."""
    rows = [("a", 0, 4, 3600), ("b", 0, 4, 1800), ("c", 60, 8, 600), ("e", 180, 1, 100)]
    lines = ["job_id,submit_s,gpus,duration_s"]
    lines += [f"{name},{at},{gpus},{lasts}" for name, at, gpus, lasts in rows]
    trace, url = folder / "jobs.csv", str(folder / f"{policy}.db")
    trace.write_text("\n".join([*lines, ""]), encoding="utf-8")
    tree = {
        "cluster": {"nodes": [{"name": "g[1-2]", "gpus": 4}]},
        "workload": {"trace": str(trace)},
        "policy": {"name": policy, "trigger": "event"},
        "log": {"url": url},
    }
    simulate(make_config(tree))
    return url


def said(*command: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*command, "--json"])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_diff_says_what_the_promise_counts_on(tmp_path: Path) -> None:
    urls = [logged(tmp_path, name) for name in ("fifo", "fifo_easy")]
    seen = said("diff", *urls)["first_decision"]["seen"]
    words = (
        "the promise counts on time limits, and none of the 2 jobs that have GPUs declares one; "
        f"each counts as running for 365d ({KEY})"
    )
    assert [seen[side]["promise"] for side in "ab"] == ["", words]
    assert f"        {words}\n" in CliRunner().invoke(app, ["diff", *urls]).stdout
