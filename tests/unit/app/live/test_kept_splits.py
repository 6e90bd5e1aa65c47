"""Every policy keeps a live gang in the split that its checkpoints are of."""

from typing import Any

import pytest

from shunter.ask import wait_of
from shunter.config import POLICIES, make_config, policy_runtime
from shunter.core import (
    DrainNode,
    JobPhase,
    ReleaseJob,
    RestoreNode,
    Scheduler,
    SubmitJob,
    SuspendJob,
)
from shunter.events import AttemptStarted, Event, GpusReleased, JobSuspended, Reason
from tests.factories import job_id, job_spec, node_name, scheduler_started, servers

J0, N0 = job_id(0), node_name(0)
NEEDS_PRICES = ("min_cost", "min_cost_slo")
SIMULATED_ONLY = ("gandiva",)  # tests/unit/policies/gandiva holds it to the same
LIVE = [
    name
    for name in POLICIES.names()
    if not name.endswith("_peer") and name not in (*NEEDS_PRICES, *SIMULATED_ONLY)
]
ROUND_US = 60_000_000


class Steps:
    """A live core under a policy that is asked every minute; an input a step."""

    def __init__(self, name: str) -> None:
        nodes = [{"name": f"n{number}", "gpus": gpus} for number, gpus in enumerate((2, 1, 1))]
        tree: dict[str, Any] = {
            "cluster": {"nodes": nodes},
            "policy": {"name": name, "round": 60},
            "backend": {"kind": "local", "local": {"root": "attempts"}},
            "log": {"url": "log.db"},
        }
        runtime = policy_runtime(make_config(tree), instant=False)
        self.core = Scheduler(runtime.policy, runtime.rules)
        self.core.view.open()
        opening: list[Event] = [scheduler_started(policy=name), *servers(2, 1, 1)]
        for fact in opening:
            self.core.emit(fact)
        self.core.view.close()
        self.now_us = 0

    def step(self, *make: Any, **fields: Any) -> list[Event]:
        self.now_us += ROUND_US
        events, _ = self.core.step(self.now_us, [one(self.now_us, **fields) for one in make])
        return [*events]


@pytest.mark.parametrize("name", LIVE)
def test_gang_waits_for_its_split(name: str) -> None:
    steps = Steps(name)
    steps.step(SubmitJob, job_id=J0, spec=job_spec(2, total_steps=10**6))
    job = steps.core.state.jobs[J0]
    assert [share.node for share in job.held.shares] == [N0]
    steps.step(AttemptStarted, job_id=J0, attempt=1)
    steps.step(SuspendJob, job_id=J0)
    steps.step(JobSuspended, GpusReleased, job_id=J0, attempt=1)
    steps.step(DrainNode, node=N0)
    steps.step(ReleaseJob, job_id=J0)
    steps.step()
    assert job.phase is JobPhase.waiting
    wait = wait_of(job, steps.core.state)
    assert wait is not None
    assert wait.reason is Reason.split_kept
    steps.step(RestoreNode, node=N0)
    steps.step()
    assert [share.node for share in job.held.shares] == [N0]
