"""The table of models' tensor-size skews."""

import json
from pathlib import Path

import pytest

from shunter.config import read_text
from shunter.errors import ConfigError
from shunter.policies import BUILTIN_SKEWS, ModelSkew, builtin_skews, load_skews, parse_skews

HEADER = "model,total_mb,largest_mb,skew\n"
VGG = "vgg19,547.1,392.0,0.717\n"


def _unread(path: str) -> str:
    raise AssertionError(f"{path} must not be read")


@pytest.mark.parametrize("threshold", [0.14, 0.6])
def test_builtin_table_tells_the_skewed_models_from_the_others(threshold: float) -> None:
    skews = builtin_skews()

    skewed = [model for model in skews if skews[model].skew > threshold]

    assert skewed == ["vgg19", "vgg16", "vgg11", "alexnet"]


def test_builtin_table_is_named_as_a_source() -> None:
    skews = load_skews(BUILTIN_SKEWS, _unread)

    assert skews["vgg19"] == ModelSkew("vgg19", 547.1, 392.0, 0.717)
    assert len(skews) == 9


@pytest.mark.needs("../shared")
def test_builtin_table_is_that_of_the_reference() -> None:
    path = Path(__file__).resolve().parents[4] / "shared/reference/tiresias_model_skew.json"

    rows = json.loads(path.read_text())["models"]

    assert list(builtin_skews().values()) == [
        ModelSkew(row["model"], row["total_mb"], row["max_mb"], row["skew_max_over_total"])
        for row in rows
    ]


def test_file_has_the_same_columns_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "skews.csv"
    path.write_text("skew, model,largest_mb,total_mb\r\n\r\n0.5,mine,10,20\r\n")

    assert load_skews(str(path), read_text) == {"mine": ModelSkew("mine", 20, 10, 0.5)}


def test_row_of_skews_ends_at_a_line_feed_and_at_nothing_else() -> None:
    (skew,) = parse_skews(HEADER + "m\u2028b,20,10,0.5\n", "s.csv").values()
    assert skew.model == "m\u2028b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.csv, line 1: expected the header model,total_mb,largest_mb,skew, found nothing"),
        (VGG, "s.csv, line 1: expected the header model,total_mb,largest_mb,skew, found vgg19,"),
        ("model,skew\nm,0.5\n", "s.csv, line 1: expected the header"),
        (HEADER, "s.csv is empty: expected one row for each model"),
        (HEADER + "m,20,10\n", "s.csv, line 2: 3 fields, expected 4"),
        (HEADER + ",20,10,0.5\n", "s.csv, line 2, column model: missing"),
        (HEADER + "m,x,10,0.5\n", "s.csv, line 2, column total_mb: not a number: 'x'"),
        (HEADER + "m,20,,0.5\n", "s.csv, line 2, column largest_mb: not a number: ''"),
        (HEADER + "m,20,-1,0.5\n", "s.csv, line 2, column largest_mb: expected a number above 0"),
        (HEADER + "m,20,10,nan\n", "s.csv, line 2, column skew: expected a number above 0"),
        (HEADER + "m,20,30,1.5\n", "s.csv, line 2, column largest_mb: 30 is more than total_mb"),
        (HEADER + "m,20,10,0.9\n", "s.csv, line 2, column skew: expected largest_mb / total_mb"),
        (HEADER + VGG + "\n" + VGG, "s.csv, line 4, column model: 'vgg19' stands twice"),
        (HEADER + '"m,20\n', "s.csv, line 2: not valid CSV"),
    ],
)
def test_wrong_file_is_an_error_with_line_and_column(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        parse_skews(text, "s.csv")


def test_unknown_builtin_table_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no table 'builtin:x'; expected builtin:model-skew or"):
        load_skews("builtin:x", _unread)
