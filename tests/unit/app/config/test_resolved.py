"""What a log records of its config, and what is rebuilt from that."""

import json
from collections.abc import Callable

import pytest

from shunter.config import LoadedConfig, policy_runtime, record_of, recorded_runtime
from shunter.errors import ConfigError

Generated = Callable[..., LoadedConfig]


def _record(loaded: LoadedConfig) -> str:
    return record_of(loaded, instant=True, workload={"jobs": 60})


def test_policy_and_rules_are_rebuilt_from_the_record(generated: Generated) -> None:
    loaded = generated(
        policy__name="las",
        policy__round="90s",
        policy__placement="spread",
        policy__params__las__queues_gpu_s=["5m", "1h"],
        policy__guards__min_runtime="10m",
        policy__guards__max_preemptions_per_job_hour=2,
        policy__guards__starvation_after="12h",
        simulation__lease__round_ends="last_gang",
        log__reasons="all",
        seed=11,
    )

    made = policy_runtime(loaded, instant=True)
    rebuilt = recorded_runtime(_record(loaded))

    assert rebuilt.rules == made.rules
    assert rebuilt.policy.name == "las"
    assert vars(rebuilt.policy)["index"] == vars(made.policy)["index"]
    assert type(vars(rebuilt.policy)["placement"]) is type(vars(made.policy)["placement"])


def test_the_record_does_not_say_where_the_log_goes(generated: Generated) -> None:
    assert _record(generated(log__url="memory:")) == _record(generated(log__url="/x/y.db"))


def test_the_record_is_canonical(generated: Generated) -> None:
    record = _record(generated())

    canonical = json.dumps(json.loads(record), sort_keys=True, separators=(",", ":"))
    assert record == canonical


def test_equal_durations_are_recorded_alike(generated: Generated) -> None:
    assert _record(generated(policy__round="60s")) == _record(generated(policy__round=60))
    assert _record(generated(policy__round="1m")) == _record(generated(policy__round=60.0))


def test_only_the_chosen_policys_parameters_are_recorded(generated: Generated) -> None:
    loaded = generated(policy__params__las__queues_gpu_s=["5m"])

    assert json.loads(_record(loaded))["policy"]["params"] == {"fifo": {}}


@pytest.mark.parametrize("record", ["", "{}", "[]", '{"policy": {"name": "fifo"}}'])
def test_a_record_of_something_else_is_refused(record: str) -> None:
    with pytest.raises(ConfigError, match="the config recorded in the log cannot be read"):
        recorded_runtime(record)
