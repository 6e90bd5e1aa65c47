"""A program in a simulated world: its orders come at its instants, and are facts that verify."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shunter.config import LoadedConfig
from shunter.core import CancelJob, ChangePriority, Command, View
from shunter.events import JobCancelRequested, JobId, JobPriorityChanged
from shunter.run import simulate
from tests.unit.app.traces import TURNS, config_of, verified

SECOND = 1_000_000
HEAD, ROWS = "job_id,submit_s,gpus,duration_s", ("a,0,1,600", "b,0,1,100", "c,100,1,600")
TWO_GPUS = {"nodes": [{"name": "n", "gpus": 2}]}
POLICIES: dict[str, dict[str, Any]] = {
    "turns": TURNS,
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


def played(loaded: LoadedConfig) -> tuple[Reactive, str]:
    """Run it; return what the driver saw, and the digest of the log."""
    driver = Reactive()
    return driver, simulate(loaded, driver=driver, overwrite=True).document["log"]["digest"]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_orders_come_at_their_instants_and_the_log_verifies(
    policy: dict[str, Any], tmp_path: Path
) -> None:
    """At 100 s the driver sees that `c` came, at 5,000 s that all is over."""
    loaded = config_of(tmp_path, HEAD, *ROWS, cluster=TWO_GPUS, policy=policy)
    driver, digest = played(loaded)

    assert [at_s for at_s, _ in driver.seen] == [100, 250, 5000]
    assert driver.seen[0][1][-1] == "c"
    assert driver.seen[2][1] == []
    orders = [e for e in verified(loaded) if isinstance(e, JobPriorityChanged | JobCancelRequested)]
    assert orders == [
        JobPriorityChanged(100 * SECOND, JobId("c"), 3, "ana"),
        JobCancelRequested(250 * SECOND, JobId("a"), "ana"),
    ]
    assert played(loaded)[1] == digest


def test_all_else_of_an_instant_happens_before_the_driver_looks(tmp_path: Path) -> None:
    """`b` ends at 100 s, where nobody takes turns with it: it is gone then."""
    loaded = config_of(tmp_path, HEAD, *ROWS, cluster=TWO_GPUS, policy=POLICIES["events"])
    assert played(loaded)[0].seen[0] == (100, ["a", "c"])
