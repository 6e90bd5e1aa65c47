"""What is in effect: values with their origins, lines of keys, and tables that are left out."""

import tomllib
from collections.abc import Iterator
from json import dumps
from pathlib import Path

import pytest

from shunter.config import (
    NO_WORKLOAD,
    Config,
    Section,
    effective,
    json_schema,
    lines_of_keys,
    load_config,
    make_config,
    settings,
)
from tests.unit.app.conftest import Generated


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
    fields = [
        each for one in schema["$defs"].values() for each in one.get("properties", {}).values()
    ]
    durations = [each.get("default") for each in fields if '"title": "duration' in dumps(each)]
    assert len(durations) > 20
    assert {type(each) for each in durations} == {str, type(None)}


TEXT = '''\
# a = 1
top = 1
[a]
b.c = 2   # d = 3
text = """
e = 4
"""
list = [
  1, # ]
  "x = 5",
]
after = 6
[[a.items]]
k = 1
[[a.items]]
k = { j = 2 }
[a.items.inner]
"quoted key" = 7
'''


def test_every_key_has_its_line() -> None:
    assert tomllib.loads(TEXT)

    lines = lines_of_keys(TEXT)

    assert lines == {
        ("top",): 2,
        ("a",): 3,
        ("a", "b", "c"): 4,
        ("a", "text"): 5,
        ("a", "list"): 8,
        ("a", "after"): 12,
        ("a", "items", 0): 13,
        ("a", "items", 0, "k"): 14,
        ("a", "items", 1): 15,
        ("a", "items", 1, "k"): 16,
        ("a", "items", 1, "inner"): 17,
        ("a", "items", 1, "inner", "quoted key"): 18,
    }


def test_line_of_toml_ends_at_a_line_feed_and_at_nothing_else() -> None:
    text = 'a = "x\u2028b = 1\u0085"\nc = 2\n'
    assert tomllib.loads(text)
    assert lines_of_keys(text) == {("a",): 1, ("c",): 2}


def _left_out(section: type[Section]) -> Iterator[Section]:
    """Yield what stands for the tables of a section that are left out, and for those in them."""
    for field in section.model_fields.values():
        if isinstance(field.default, Section) and field.default is not NO_WORKLOAD:
            yield field.default
            yield from _left_out(type(field.default))


LEFT_OUT = list(_left_out(Config))


@pytest.mark.parametrize("table", LEFT_OUT, ids=lambda table: type(table).__name__)
def test_a_table_that_is_left_out_is_one_in_which_every_key_is(table: Section) -> None:
    assert table == type(table).model_validate_json("{}")
