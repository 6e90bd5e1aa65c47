"""A program in a simulated world: its orders come at its instants, and are facts that verify."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import make_config
from shunter.core import CancelJob, ChangePriority, Command, View
from shunter.events import JobId
from shunter.run import simulate

SECOND = 1_000_000
ROWS = "job_id,submit_s,gpus,duration_s\na,0,1,600\nb,0,1,100\nc,100,1,600\n"
POLICIES: dict[str, dict[str, Any]] = {
    "turns": {"name": "gandiva", "trigger": "event", "slicing": {}},
    "events": {"name": "las", "trigger": "event"},
    "rounds": {"name": "las", "round": "60s"},
}


@dataclass
class Reactive:
    """Looks at 100 s, and gives `c` a priority; at 250 s ends `a`, and looks a last time later."""

    seen: list[tuple[int, list[str]]] = field(default_factory=list)
    wakes_us: list[int] = field(default_factory=lambda: [s * SECOND for s in (100, 250, 5000)])

    def wake_at(self) -> int | None:
        return self.wakes_us[0] if self.wakes_us else None

    def orders(self, now_us: int, view: View) -> Sequence[Command]:
        assert now_us == self.wakes_us.pop(0)
        self.seen.append((now_us // SECOND, list(view.jobs)))
        match len(self.seen):
            case 1:
                return [ChangePriority(now_us, JobId("c"), 3, "ana")]
            case 2:
                return [CancelJob(now_us, JobId("a"), "ana")]
        return []


def played(folder: Path, policy: dict[str, Any]) -> tuple[Reactive, list[dict[str, Any]], str]:
    """Run it; return what the driver saw, the orders in the log, and the log's digest."""
    trace, url, driver = folder / "jobs.csv", folder / "run.db", Reactive()
    trace.write_text(ROWS)
    config = {
        "cluster": {"nodes": [{"name": "n", "gpus": 2}]},
        "workload": {"trace": str(trace)},
        "policy": policy,
        "log": {"url": str(url)},
    }
    digest = simulate(make_config(config), driver=driver, overwrite=True).document["log"]["digest"]
    exported = CliRunner().invoke(app, ["log", "export", str(url)]).output.splitlines()
    kinds = ("JobPriorityChanged", "JobCancelRequested")
    return driver, [e for e in map(json.loads, exported) if e["kind"] in kinds], digest


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_orders_come_at_their_instants_and_the_log_verifies(
    policy: dict[str, Any], tmp_path: Path
) -> None:
    """At 100 s the driver sees that `c` came, at 5,000 s that all is over."""
    driver, orders, digest = played(tmp_path, policy)

    assert [at_s for at_s, _ in driver.seen] == [100, 250, 5000]
    assert driver.seen[0][1][-1] == "c"
    assert driver.seen[2][1] == []
    assert [(e["kind"], e["at_us"] // SECOND, e["job_id"], e["by"]) for e in orders] == [
        ("JobPriorityChanged", 100, "c", "ana"),
        ("JobCancelRequested", 250, "a", "ana"),
    ]
    verified = CliRunner().invoke(app, ["replay", str(tmp_path / "run.db"), "--verify"])
    assert verified.exit_code == 0, verified.output
    assert played(tmp_path, policy)[2] == digest


def test_all_else_of_an_instant_happens_before_the_driver_looks(tmp_path: Path) -> None:
    """`b` ends at 100 s, where nobody takes turns with it: it is gone then."""
    driver, _, _ = played(tmp_path, POLICIES["events"])
    assert driver.seen[0] == (100, ["a", "c"])
