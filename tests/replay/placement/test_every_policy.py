"""Placement `topology` composes with every policy: jobs end, contracts hold, replay is equal."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.ask import Verifier
from shunter.config import POLICIES
from shunter.core import State
from shunter.core.fold import apply
from shunter.plugins import BROUGHT
from shunter.run import rebuild
from tests.property.invariants import check_state
from tests.replay.placement.composed import check_contract, composed_config, composed_trace, played
from tests.slices import THOROUGH, searched, slice_number

NAMES = tuple(name for name in POLICIES.names() if name not in BROUGHT["shunter.policies"])
INDEX = (
    *("drf", "fifo", "fifo_backfill", "fifo_easy", "ftf", "gittins", "las", "shortest_expected"),
    *("shortest_gpu", "sjf", "smallest", "srtf", "tetris", "tiresias"),
)
SHARING = ("gavel", "max_min_fairness", "max_sum_throughput", "finish_time_fairness", "min_cost")
SLICING = {"quantum": 60}
seeds = st.integers(0, 999_999) if THOROUGH else st.just(1 + slice_number() * 99_991)


def chosen(*values: Any, every: int = 1) -> st.SearchStrategy[Any]:
    """Draw one of some values; the only example of a slice has another at each `every`-th slice."""
    at = slice_number() // every % len(values)
    return st.sampled_from([*values[at:], *values[:at]])


def check_run(name: str, seed: int, *, policy: dict[str, Any], **sections: Any) -> None:
    """Run a trace under a policy, and hold it to all that must be so."""
    params = {"prices": {"v100": 2.0}} if name.startswith("min_cost") else {}
    params |= policy.pop("params", {})
    keys = {"name": name, "round": 60, "placement": "topology", **policy}
    if params:
        keys["params"] = {name: params}
    trace = composed_trace(seed)
    result, events = played(composed_config(name, seed, policy=keys, **sections), trace)
    assert all(job.jct_us is not None for job in result.ledger.results())
    assert len(list(result.ledger.results())) == len(trace.jobs)
    state = State()
    for number, event in enumerate(events, 1):
        apply(state, event)
        for job in state.jobs.values():
            check_contract(job, state)
        if number == len(events) or events[number].at_us > event.at_us:
            check_state(state)  # within an instant a job may have left and be on its way
    verifier = Verifier(rebuild)
    divergence = verifier.take(events)
    assert divergence is None, "\n".join(divergence.lines())


@pytest.mark.parametrize("name", NAMES)
@searched(1, thorough=40)
@given(seed=seeds, resume_s=chosen(0, 20), mode=chosen("adaptive", "spread", every=2))
def test_policy_composes_with_topology(name: str, seed: int, resume_s: int, mode: str) -> None:
    policy: dict[str, Any] = {"topology": {"mode": mode}}
    if name == "gandiva":
        policy["slicing"] = SLICING
    costs = {"suspend": resume_s, "resume": resume_s, "start": resume_s}
    check_run(name, seed, policy=policy, simulation={"costs": costs})


@pytest.mark.parametrize("name", SHARING)
@searched(1, thorough=40)
@given(seed=seeds)
def test_pairs_on_the_same_gpus_compose_with_topology(name: str, seed: int) -> None:
    check_run(name, seed, policy={"params": {"space_sharing": True}})


@searched(1, thorough=40)
@given(seed=seeds)
def test_packs_that_take_turns_compose_with_topology(seed: int) -> None:
    params = {"packing": {"probe": 120}}
    policy = {"slicing": SLICING, "params": params}
    check_run("gandiva", seed, policy=policy, simulation={"samples": {"every": 20}})


@pytest.mark.parametrize("name", INDEX)
@searched(1, thorough=40)
@given(seed=seeds, sizing=chosen("proportional", "tune", "greedy"))
def test_sized_jobs_compose_with_topology(name: str, seed: int, sizing: str) -> None:
    check_run(name, seed, policy={"sizing": sizing}, workload={"sensitivity": "builtin:synergy"})


@pytest.mark.parametrize("name", INDEX)
@searched(1, thorough=40)
@given(seed=seeds, staleness_s=chosen(0, 5), sized=chosen(*(False, True), every=2))
def test_job_schedulers_compose_with_topology(
    name: str, seed: int, staleness_s: int, sized: bool
) -> None:
    policy: dict[str, Any] = {"decentralised": {"staleness": staleness_s}}
    if sized:
        policy["sizing"] = "proportional"
    check_run(name, seed, policy=policy)


@pytest.mark.parametrize("name", INDEX)
@searched(1, thorough=40)
@given(seed=seeds)
def test_curves_are_learnt_under_every_order(name: str, seed: int) -> None:
    check_run(name, seed, policy={}, simulation={"samples": {"every": 30, "noise": 0.05}})
