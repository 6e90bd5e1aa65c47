"""Seeds stand for scenarios that are the same everywhere, and together try everything."""

from collections import Counter

from tests.chaos.__main__ import seeds_of
from tests.chaos.scenario import HOST_FAULTS, KINDS, POLICIES, drawn

SEEDS = range(1, 301)


def test_seed_is_the_same_scenario_each_time() -> None:
    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


def test_seeds_try_every_fault_policy_and_kind_of_job() -> None:
    faults, policies, kinds = Counter[str](), Counter[str](), Counter[str]()
    for seed in SEEDS:
        scenario = drawn(seed)
        faults.update(fault.what for fault in scenario.faults)
        policies[scenario.cluster.policy] += 1
        kinds.update(job.kind for job in scenario.jobs)
    wanted = {*HOST_FAULTS, "kill", "terminate", "suspend", "cancel"}
    print(dict(faults), dict(policies), dict(kinds))
    assert {what for what, count in faults.items() if count >= 50} == wanted
    assert {name for name, count in policies.items() if count >= 15} == set(POLICIES)
    assert set(kinds) == set(KINDS)


def test_ten_seeds_of_ci_do_every_fault() -> None:
    told = {fault.what for seed in range(1, 11) for fault in drawn(seed).faults}
    assert told >= {*HOST_FAULTS, "kill", "terminate", "suspend", "cancel"}


def test_list_of_seeds_is_read() -> None:
    assert seeds_of("1-3,7, 9-9") == [1, 2, 3, 7, 9]
