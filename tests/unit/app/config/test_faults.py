"""What an operator reads: one line for each wrong key, with place, key and what was expected."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.config import load_config, make_config, policy_runtime
from shunter.errors import ConfigError

WriteConfig = Callable[[str], Path]
Tree = dict[str, object]


def _refusal(setting: str, config_file: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        load_config(config_file, [("--set", setting)], {})
    return str(refused.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("schema=2", "expected 1, not 2"),
        ("seed=-1", "expected 0 or more, not -1"),
        ("seed=1.5", "expected a whole number, not 1.5"),
        ("seed=true", "expected a whole number, not True"),
        ("seed=x", "expected a whole number, not 'x'"),
        ("cluster.nodes.0.gpus=-4", "expected 0 or more, not -4"),
        ("cluster.nodes.0.gpus=65", "expected 64 or less, not 65"),
        ("cluster.nodes.0.cpus=-1", "expected 0 or more, not -1"),
        ("cluster.nodes.0.memory_gb=-1", "expected 0 or more, not -1"),
        ("cluster.nodes.0.memory_gb=nan", "expected a finite number, not nan"),
        ("cluster.nodes.0.memory_gb=inf", "expected a finite number, not inf"),
        ("cluster.nodes.0.count=-1", "expected 0 or more, not -1"),
        ("cluster.nodes.0.name='gpu[1-'", "expected a hostlist such as 'gpu[001-100]'"),
        ("cluster.nodes.0.name='@all'", "expected host names of letters"),
        ("cluster.nodes.0.sockets=0", "expected 1 or more, not 0"),
        ("policy.round=0", "expected more than 0, not 0"),
        ("policy.round='-5s'", "expected a duration such as 90"),
        ("policy.round=nan", "a duration must be finite"),
        ("policy.round='5x'", "expected a duration such as 90"),
        ("policy.trigger=never", "expected 'round' or 'event', not 'never'"),
        (
            "policy.placement=best",
            "expected 'consolidated', 'spread', 'first_fit', 'skew' or 'topology', not 'best'",
        ),
        ("policy.guards.max_preemptions_per_job_hour=0", "expected 1 or more, not 0"),
        ("policy.guards.starvation_after=0", "expected more than 0, not 0"),
        ("workload.rows=[-1, 5]", "expected 0 or more, not -1"),
        ("workload.trace=''", "expected a text that is not empty, not ''"),
        ("workload.format=xml", "expected one of canonical-csv, canonical-jsonl, "),
        ("workload.generate.jobs=0", "expected 1 or more, not 0"),
        ("workload.generate.load=0", "expected more than 0, not 0"),
        ("workload.generate.load=nan", "expected a finite number, not nan"),
        ("queues.a.quota_gpus=-1", "expected 0 or more, not -1"),
        ("queues.a.weight=0", "expected more than 0, not 0"),
        ("queues.a=5", "expected a table, not 5"),
        ("simulation.costs.start=-1", "expected 0 or more, not -1"),
        ("simulation.lease.progress=some", "expected 'continuous' or 'whole_steps', not 'some'"),
        ("simulation.failures.mttr=0", "expected more than 0, not 0"),
        ("simulation.failures.mttr=0.5", "expected 1s or more, not "),
        ("simulation.failures.mtbf=0.000001", "expected 1s or more, not "),
        ("simulation.failures.rack_mtbf=0.9", "expected 1s or more, not "),
        ("simulation.speeds.relative.k80=0", "expected more than 0, not 0"),
        ("log.reasons=some", "expected 'all' or 'transitions', not 'some'"),
        ("policy.params.las.queues_gpu_s=[5, 3]", "thresholds above 0 that strictly rise"),
        ("policy.params.las.queues_gpu_s=[-5]", "thresholds above 0 that strictly rise"),
        ("policy.params.las.thresholds=[5]", "unknown key"),
        ("policy.params.fifo.x=1", "unknown key"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(
    setting: str, message: str, config_file: Path
) -> None:
    key = setting.partition("=")[0]

    refusal = _refusal(setting, config_file)

    assert refusal.startswith(f"--set {key}")
    assert message in refusal
    assert len(refusal.splitlines()) == 1


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            {"name": "las", "params": {"las": {"queues_gpu_s": []}}},
            "config: policy.trigger: las with queues_gpu_s = [] ranks by the service itself",
        ),
        (
            {"name": "blox_peer", "params": {"blox_peer": {"schedule": "las"}}},
            "config: policy.trigger: blox_peer with schedule = 'las' ranks by the time run",
        ),
        (
            {"name": "two_level", "params": {"two_level": {"inside_params": {"queues_gpu_s": []}}}},
            "policy.params.two_level.inside_params: las with queues_gpu_s = [] ranks by",
        ),
    ],
)
def test_a_rank_that_changes_all_the_time_needs_rounds(policy: Tree, message: str) -> None:
    tree: Tree = {"cluster": {"nodes": [{"name": "a", "gpus": 1}]}, "workload": {"generate": {}}}

    with pytest.raises(ConfigError) as refused:
        policy_runtime(make_config(tree | {"policy": {**policy, "trigger": "event"}}), instant=True)

    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    in_rounds = make_config(tree | {"policy": {**policy, "trigger": "round"}})
    assert policy_runtime(in_rounds, instant=True).rules.round_us


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"count": 0}, "no server is left: every group has count = 0 or an empty hostlist"),
        ({"name": ""}, "no server is left"),
        ({"gpus": 0}, "gpus = 0 and cpus = 0: a server needs GPUs or CPUs"),
        ({"count": 3, "name": "a[1-2]"}, "count = 3, and 'a[1-2]' names 2 servers"),
        ({"sockets": 3}, "sockets = 3 does not divide gpus = 4 evenly"),
        ({"switches": 8}, "switches = 8 does not divide gpus = 4 evenly"),
        ({"nvlink": [[0, 4]]}, "different GPU numbers from 0 to 3"),
        ({"nvlink": [[1, 1]]}, "different GPU numbers from 0 to 3"),
        ({"nvlink": [[1]]}, "different GPU numbers from 0 to 3"),
    ],
)
def test_a_server_group_that_makes_no_sense_is_refused(tree: Tree, message: str) -> None:
    group = {"name": "a", "gpus": 4, **tree}

    with pytest.raises(ConfigError) as refused:
        make_config({"cluster": {"nodes": [group]}, "workload": {"generate": {}}})

    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"workload": {}}, "expected either trace = 'FILE' or a table"),
        ({"workload": {"trace": "x", "generate": {}}}, "expected either trace = 'FILE'"),
        ({"workload": {"generate": {}, "rows": [0, 5]}}, "format, rows and options choose from"),
        ({"workload": {"trace": "x", "rows": [5, 5]}}, "expected [first, end] with first < end"),
        (
            {"workload": {"generate": {"ends": {"failed": 0.6, "cancelled": 0.6}}}},
            "at most 1 together",
        ),
        (
            {"policy": {"trigger": "event"}, "simulation": {"lease": {"credit": "at_grant"}}},
            "[simulation.lease] needs rounds",
        ),
        ({"simulation": {"failures": {"rack_mtbf": "1d"}}}, "no group of cluster.nodes has a rack"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(tree: Tree, message: str) -> None:
    whole: Tree = {
        "cluster": {"nodes": [{"name": "a", "gpus": 4}]},
        "workload": {"generate": {}},
        **tree,
    }

    with pytest.raises(ConfigError) as refused:
        make_config(whole)

    assert message in str(refused.value)


def test_every_wrong_key_gets_a_line_with_the_file_and_the_line(write_config: WriteConfig) -> None:
    path = write_config(
        "sead = 1\n"
        "[[cluster.nodes]]\n"
        'name = "a"\n'
        "gpu = 3\n"
        "[[cluster.nodes]]\n"
        'name = "b"\n'
        "gpus = [\n"
        "  1, 2\n"
        "]\n"
        "[workload.generate]\n"
        "jobs = 0\n"
    )

    with pytest.raises(ConfigError) as refused:
        load_config(path, [], {})

    lines = str(refused.value).splitlines()
    assert [line.split(": ")[0:2] for line in lines] == [
        [f"{path}:2", "cluster.nodes.0.gpus"],
        [f"{path}:4", "cluster.nodes.0.gpu"],
        [f"{path}:7", "cluster.nodes.1.gpus"],
        [f"{path}:11", "workload.generate.jobs"],
        [f"{path}:1", "sead"],
    ]
    assert "unknown key; did you mean 'seed'?" in lines[-1]


def test_an_unknown_policy_lists_the_known_ones(config_file: Path) -> None:
    refusal = _refusal("policy.name=lass", config_file)

    assert "no policy 'lass'; did you mean 'las'?" in refusal
    assert "known: " in refusal
    assert "fifo, fifo_backfill, fifo_easy, finish_time_fairness, ftf, " in refusal


def test_tables_of_policies_not_chosen_are_checked_too(config_file: Path) -> None:
    assert "no policy 'gavle'" in _refusal("policy.params.gavle.x=1", config_file)
    assert "unknown key" in _refusal("policy.params.srtf.x=1", config_file)


def test_a_server_listed_twice_is_refused() -> None:
    nodes = [{"name": "a[1-3]", "gpus": 4}, {"name": "a3", "gpus": 4}]

    with pytest.raises(ConfigError, match="server 'a3' is listed twice"):
        make_config({"cluster": {"nodes": nodes}, "workload": {"generate": {}}})


def test_a_config_without_cluster_or_workload_says_so(write_config: WriteConfig) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(write_config("seed = 1"), [], {})

    assert "cluster: missing; expected the servers" in str(refused.value)
    assert "workload: missing; expected the jobs" in str(refused.value)
