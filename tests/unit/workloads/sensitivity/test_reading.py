"""Tables of sensitivity: the built-in one, what is refused and where, and the form in a log."""

import json
from typing import Any

import pytest

from shunter.errors import ConfigError
from shunter.events import Resources
from shunter.workloads import (
    BUILTIN_SENSITIVITY,
    builtin_sensitivity,
    compact_sensitivity,
    load_sensitivity,
    parse_compact_sensitivity,
)

ROWS = [[0.4, 0.4], [1.0, 1.0], [1.5, 2.0]]


def document(**changes: Any) -> dict[str, Any]:
    """Return a table of one model; None for a key leaves it out."""
    whole: dict[str, Any] = {
        "proportional_per_gpu": {"cpus": 3, "memory_gb": 62.5},
        "cpu_points": [1, 3, 6],
        "memory_gb_points": [62.5, 125],
        "models": {"res50": {"table": ROWS}},
    }
    whole |= changes
    return {key: value for key, value in whole.items() if value is not None}


def read(whole: dict[str, Any]) -> Any:
    return load_sensitivity("table.json", lambda _: json.dumps(whole)).table


def refused(whole: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        read(whole)
    return str(caught.value)


def test_amounts_are_thousandths_of_cpus_and_mb() -> None:
    table = read(document())
    matrix = table.models["res50"][1]
    assert (matrix.cpus_milli, matrix.memory_mb) == ((1000, 3000, 6000), (62_500, 125_000))
    assert table.proportional == Resources(0, 3000, 62_500)


# The best cells of table 5 in the source: the least CPUs and GB for each GPU, and the speed there.
@pytest.mark.parametrize(
    ("model", "cpus", "memory_gb", "speed"),
    [
        ("alexnet", 12, 125, 2.94),
        ("res18", 9, 62.5, 2.4),
        ("res50", 4, 62.5, 1.15),
        ("mobilenet", 6, 62.5, 1.55),
        ("gnmt", 1, 20.83, 1.0),
        ("m5", 6, 187.5, 2.5),
        ("deepspeech", 3, 62.5, 1.0),
    ],
)
def test_builtin_table_has_the_published_demands(
    model: str, cpus: float, memory_gb: float, speed: float
) -> None:
    matrix = builtin_sensitivity().table.models[model][1]
    assert matrix.best == Resources(0, round(cpus * 1000), round(memory_gb * 1000))
    assert matrix.speed(matrix.best.cpus_milli, matrix.best.memory_mb) == speed


def test_rows_that_were_not_measured_of_gangs_are_left_out() -> None:
    assert builtin_sensitivity().table.models["alexnet"][4].cpus_milli[-1] == 6000


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (
            {"models": {"res50": {"table": [[0.4, 0.4], [1.0, 1.0], [0.9, 2.0]]}}},
            "table.json: res50, 6 CPUs, 62.5 GB: 0.9 is slower than 1 with less CPUs",
        ),
        (
            {"models": {"res50": {"table": [[0.4, 0.4], [1.0, 0.8], [1.5, 2.0]]}}},
            "table.json: res50, 3 CPUs, 125 GB: 0.8 is slower than 1 with less memory",
        ),
        ({"cpu_points": [1, 2, 6]}, "cpu_points: lacks the proportional share"),
        ({"memory_gb_points": [60, 125]}, "memory_gb_points: lacks the proportional share"),
        (
            {"models": {"res50": {"table": [[0, 0], [1.0, 1.0], [1.5, 2.0]]}}},
            "table.json: res50, 1 CPUs: a row of zeros: leave out what was not measured",
        ),
        (
            {"models": {"res50": {"table": [[0.4, 0.4], [2.0, 2.0], [2.5, 3.0]]}}},
            "res50: expected 1 at the proportional share, not 2",
        ),
        (
            {"models": {"res50": {"table": [[0, 0.4], [0, 1.0], [1.5, 2.0]]}}},
            "table.json: res50, 1 CPUs, 62.5 GB: expected a speed above 0, not 0; with such a",
        ),
        (
            {"models": {"res50": {"table": ROWS, "multi_gpu": {"2": {"table": [[0, 0], [0, 0]]}}}}},
            "res50, 2 GPUs: rows of zeros only: leave out what was not measured",
        ),
        (
            {"models": {"res50": {"table": [[0.4, "fast"], [1.0, 1.0], [1.5, 2.0]]}}},
            "res50, 1 CPUs, 125 GB: expected a speed above 0, not 'fast'",
        ),
        ({"models": {"res50": {"table": ROWS[:2]}}}, "res50: expected a table of 3 rows"),
        ({"memory_gb_points": [0, 62.5]}, "memory_gb_points: expected a number above 0, not 0"),
        ({"cpu_points": [0.0004, 3, 6]}, "cpu_points: expected 0.001 to 1.1259e+12, not 0.0004"),
        ({"cpu_points": [1, 3, 10**400]}, "cpu_points: expected 0.001 to 1.1259e+12, not 1000"),
        (
            {"models": {"res50": {"table": [[0.4, 0.4], [1.0, 1.0], [1.5, 10**400]]}}},
            "res50, 6 CPUs, 125 GB: expected a speed above 0 and at most 1e+06, not 1000",
        ),
        *(
            (
                {"models": {"res50": {"table": ROWS, "multi_gpu": {gpus: {"table": ROWS}}}}},
                f"res50, {gpus[:20]} GPUs: expected a number of GPUs from 2 to 65535",
            )
            for gpus in ("9" * 5000, "02", "\uff12", "1", "65536", "two")
        ),
        ({"cpu_points": [3, 1, 6]}, "cpu_points: expected amounts that rise"),
        (
            {"models": {"res50": {"tabel": ROWS, "table": ROWS}}},
            "table.json: res50: unknown key 'tabel'; did you mean 'table'? expected about, class",
        ),
        (
            {"models": {"res50": {"table": ROWS, "multi_gpu": {"2": {"rows": ROWS}}}}},
            "table.json: res50, 2 GPUs: unknown key 'rows'",
        ),
        (
            {"cpus_points": [1]},
            "the document: unknown key 'cpus_points'; did you mean 'cpu_points'?",
        ),
        (
            {"proportional_per_gpu": {"cpus": 3, "memory_gb": 62.5, "gpus": 1}},
            "proportional_per_gpu: unknown key 'gpus'",
        ),
        ({"models": {}}, "models: expected at least one"),
        ({"proportional_per_gpu": None}, "proportional_per_gpu: expected an object"),
    ],
)
def test_fault_is_told_with_model_and_cell(changes: dict[str, Any], what: str) -> None:
    assert what in refused(document(**changes))


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('"res50": ', '"res50": {}, "res50": ', "models: 'res50' is there twice"),
        ('"table": ', '"table": [], "table": ', "res50: 'table' is there twice"),
        ('"cpus": 3', '"cpus": 3, "cpus": 4', "proportional_per_gpu: 'cpus' is there twice"),
        ('"cpu_points": ', '"cpu_points": [], "cpu_points": ', "'cpu_points' is there twice"),
    ],
)
def test_what_is_there_twice_is_told_with_its_model(old: str, new: str, where: str) -> None:
    text = json.dumps(document()).replace(old, new)
    with pytest.raises(ConfigError) as caught:
        load_sensitivity("table.json", lambda _: text)
    assert where in str(caught.value)
    assert str(caught.value).startswith("table.json: ")


def test_what_is_no_json_or_no_table_is_told() -> None:
    with pytest.raises(ConfigError, match=r"t\.json: not valid JSON"):
        load_sensitivity("t.json", lambda _: "{")
    with pytest.raises(ConfigError, match=f"expected {BUILTIN_SENSITIVITY} or a file"):
        load_sensitivity("builtin:other", lambda _: "{}")


def test_log_gives_the_same_table_back() -> None:
    table = builtin_sensitivity().table
    form = json.loads(json.dumps(compact_sensitivity(table)))
    assert parse_compact_sensitivity(form, "log") == table


def test_form_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="log cannot be read"):
        parse_compact_sensitivity({"proportional": [1]}, "log")
