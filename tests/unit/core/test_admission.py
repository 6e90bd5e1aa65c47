"""Admission: a job that can never run is told at once, with what it needs and what there is."""

from typing import Any

import pytest

from shunter.core import Admission, Pool, Refusal, State
from shunter.core.fold import apply, replay
from shunter.events import Event, Level, Reason, facts
from tests.factories import (
    World,
    granted,
    job_id,
    job_submitted,
    node_added,
    node_name,
    policy,
    quota,
    run,
    servers,
    trace_job,
)


def refusal(*cluster: Event, gpus: int = 1, user: str = "", **fields: Any) -> Refusal | None:
    """Return what admission says of one job."""
    state = replay([*cluster, job_submitted(0, gpus, user=user, **fields)])
    return asked(state, Admission(state.cluster))


def asked(state: State, admission: Admission, name: int = 0) -> Refusal | None:
    job = state.jobs[job_id(name)]
    return admission.refusal(job.demand, job.spec.user, state.queue_of(job))


TWO_TYPES = (node_added(0, 4), node_added(1, 8, gpu_type="k80"))
HOSTS = servers(4, 4, cpus_milli=8000, memory_mb=100, rack="r1")


@pytest.mark.parametrize(
    ("cluster", "wanted"),
    [
        (servers(4, 4), {"gpus": 8}),
        (TWO_TYPES, {"gpus": 8}),
        (TWO_TYPES, {"gpus": 4, "gpu_types": ["v100"]}),
        (TWO_TYPES, {"gpus": 8, "gpu_types": ["v100", "k80"]}),
        (HOSTS, {"gpus": 0, "cpus_milli": 8000}),
        (HOSTS, {"gpus": 8, "cpus_milli": 16000, "memory_mb": 200}),
        (HOSTS, {"gpus": 4, "cpus_milli": 12000}),
        (HOSTS, {"gpus": 8, "max_level": Level.rack}),
        (HOSTS, {"gpus": 4, "shapes": ((4,),)}),
        ((node_added(0, 0, cpus_milli=1000),), {"gpus": 0, "cpus_milli": 1000}),
        ((*servers(4), quota("q", 4)), {"gpus": 4, "queue": "q"}),
        ((*servers(4), quota("q", None, users=["ann"])), {"queue": "q", "user": "ann"}),
    ],
    ids=str,
)
def test_job_that_fits_the_empty_cluster_may_wait(
    cluster: tuple[Event, ...], wanted: dict[str, Any]
) -> None:
    assert refusal(*cluster, **wanted) is None


@pytest.mark.parametrize(
    ("cluster", "wanted", "needed", "most", "says"),
    [
        (servers(4, 4), {"gpus": 9}, 9, 8, "GPUs of one type in the cluster"),
        (TWO_TYPES, {"gpus": 9}, 9, 8, "GPUs of one type in the cluster"),
        (TWO_TYPES, {"gpus": 5, "gpu_types": ["v100"]}, 5, 4, "GPUs of one type in the cluster"),
        (TWO_TYPES, {"gpu_types": ["p4", "t4"]}, 1, 0, "no node has GPUs of type p4 or t4"),
        (servers(4), {"gpus": 0}, 0, 0, "a job must ask for GPUs or CPUs"),
        (HOSTS, {"gpus": 0, "cpus_milli": 9000}, 0, 8, "even when empty: cpu_or_memory_short"),
        (HOSTS, {"gpus": 1, "memory_mb": 101}, 1, 8, "even when empty: cpu_or_memory_short"),
        (HOSTS, {"gpus": 5, "max_level": Level.server}, 5, 8, "even when empty: locality_not_met"),
        (HOSTS, {"gpus": 6, "shapes": ((6,),)}, 6, 8, "even when empty: fragmented"),
        ((*servers(8), quota("q", 4)), {"gpus": 5, "queue": "q"}, 5, 4, "the quota of queue q"),
    ],
    ids=str,
)
def test_job_that_can_never_run_is_infeasible(
    cluster: tuple[Event, ...], wanted: dict[str, Any], needed: int, most: int, says: str
) -> None:
    assert refusal(*cluster, **wanted) == Refusal(Reason.infeasible, needed, most, says)


def test_queue_takes_only_its_users() -> None:
    found = refusal(*servers(4), quota("q", None, users=["ann"]), queue="q", user="bob")
    assert found == Refusal(Reason.refused, 0, 0, "user 'bob' may not use queue q")


@pytest.mark.parametrize(
    "event",
    [
        granted(0, n0=0xF),
        facts.NodeDrained(0, node_name(0)),
        facts.NodeLost(0, node_name(0)),
        facts.GpuQuarantined(0, node_name(0), 0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_passes_refuses_nobody(event: Event) -> None:
    state = replay([*servers(4), job_submitted(0, 4), event, job_submitted(1, 4)])
    assert asked(state, Admission(state.cluster), 1) is None


def test_answers_are_forgotten_when_the_cluster_changes() -> None:
    state = replay([*servers(4), job_submitted(0, 8)])
    admission = Admission(state.cluster)
    assert asked(state, admission) is not None
    apply(state, node_added(1, 4))
    assert asked(state, admission) is None
    apply(state, facts.NodeRemoved(0, node_name(1)))
    assert asked(state, admission) is not None


def test_every_demand_is_tried_on_the_same_empty_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def pool(name: str) -> Pool:
        made.append(name)
        return Pool(name)

    monkeypatch.setattr("shunter.core.admission.Pool", pool)
    state = replay([*servers(8), *[job_submitted(number, 1 + number) for number in range(10)]])
    admission = Admission(state.cluster)
    refused = [number for number in range(10) if asked(state, admission, number)]
    assert refused == [8, 9]  # what one is given in the trial is free for the next one
    assert made == ["v100"]


def test_job_whose_deadline_is_over_when_it_comes_is_rejected() -> None:
    world = World(
        servers=servers(1),
        jobs=(trace_job(0, at=50, deadline_us=50), trace_job(1, at=50, deadline_us=51)),
    )

    outcome = run(world, policy("fifo"))

    (rejected,) = outcome.of(facts.JobRejected)
    assert (rejected.job_id, rejected.reason) == ("j0", Reason.infeasible)
    assert rejected.detail == "its deadline is not after its submission"
