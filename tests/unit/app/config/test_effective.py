from collections.abc import Callable
from pathlib import Path

from shunter.config import LoadedConfig, effective, json_schema, load_config, make_config, settings

Generated = Callable[..., LoadedConfig]


def test_every_setting_says_where_it_came_from(config_file: Path) -> None:
    loaded = load_config(config_file, [("--set", "cluster.nodes.0.cpus=9")], {"SHUNTER_SEED": "5"})

    origins = {setting.key: setting.origin for setting in settings(loaded)}

    assert origins["policy.name"] == f"{config_file}:11"
    assert origins["cluster.nodes.0.gpus"] == f"{config_file}:6"
    assert origins["cluster.nodes.0.cpus"] == "--set cluster.nodes.0.cpus"
    assert origins["seed"] == "SHUNTER_SEED"
    assert origins["policy.round"] == "default"


def test_what_is_in_effect_is_a_config_again(generated: Generated) -> None:
    loaded = generated(policy__name="las", simulation__costs__start="90s")

    again = make_config(effective(loaded))

    assert effective(again) == effective(loaded)


def test_the_parameters_of_the_chosen_policy_are_shown_with_defaults(generated: Generated) -> None:
    shown = {setting.key: setting.text for setting in settings(generated(policy__name="las"))}

    assert shown["policy.params.las.queues_gpu_s"] == '["1h", "20h"]'


def test_the_schema_knows_every_key_and_writes_durations_as_people_do() -> None:
    schema = json_schema()

    assert set(schema["properties"]) >= {"schema", "seed", "cluster", "workload", "policy", "log"}
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["PolicySection"]["properties"]["round"]["default"] == "1m"
    assert schema["$defs"]["FailuresSection"]["properties"]["mttr"]["default"] == "1h"
