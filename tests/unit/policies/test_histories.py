"""Histories: samples of GPU time from a file, the package, or a distribution."""

from math import log
from pathlib import Path

import pytest

from shunter.config import read_text
from shunter.errors import ConfigError
from shunter.policies import (
    BUILTIN_HISTORIES,
    QUANTILES,
    builtin_history,
    distribution_history,
    load_history,
    parse_history,
)


def _unread(path: str) -> str:
    raise AssertionError(f"{path} must not be read")


def test_builtin_samples_are_those_of_the_simulator() -> None:
    history = load_history("builtin:yarn-gput1000", _unread)

    assert len(history) == 1_001
    assert (history[0], history[-1]) == (121_000_000, 53_294_624_000_000)


@pytest.mark.parametrize("name", BUILTIN_HISTORIES)
def test_every_builtin_ascends_from_above_zero(name: str) -> None:
    history = builtin_history(name)

    assert list(history) == sorted(history)
    assert history[0] > 0


@pytest.mark.needs("../shared")
def test_builtin_samples_equal_the_public_file() -> None:
    shared = Path(__file__).resolve().parents[4] / "shared" / "traces" / "tiresias"

    public = load_history(str(shared / "yarn-gput1000.csv"), read_text)

    assert public == builtin_history("yarn-gput1000")


def test_unknown_builtin_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no built-in history 'yarn'; known: yarn-gput1000"):
        load_history("builtin:yarn", _unread)


@pytest.mark.parametrize(
    "text",
    ["duration\n1\n2.5\n2.5\n", "1\n2.5\n2.5", "x\r\n\r\n1\r\n2.5\r\n 2.5 \r\n\r\n"],
)
def test_file_has_one_number_a_line_with_or_without_header(tmp_path: Path, text: str) -> None:
    path = tmp_path / "history.csv"
    path.write_text(text, encoding="utf-8-sig", newline="")

    assert load_history(str(path), read_text) == (1_000_000, 2_500_000, 2_500_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "h.csv is empty: expected one number of GPU-seconds a line, above 0"),
        ("\n \n", "h.csv is empty"),
        ("duration\n", "h.csv is empty"),
        ("duration\n5\n\n4\n", "h.csv, line 4: 4 stands behind 5; expected ascending numbers"),
        ("5\n-4\n", "h.csv, line 2: expected one number of GPU-seconds a line, above 0, not '-4'"),
        ("0\n", "h.csv, line 1: expected one number .* not '0'"),
        ("1\nnan\n", "h.csv, line 2: expected one number .* not 'nan'"),
        ("nan\n1\n", "h.csv, line 1: expected one number .* not 'nan'"),
        ("1\ninf\n", "h.csv, line 2: expected one number .* not 'inf'"),
        ("1\n1e300\n", "h.csv, line 2: expected one number .* not '1e300'"),
        ("x\u2028y\n2\n1\n", "h.csv, line 3: 1 stands behind 2"),
        ("1\nlong\n", "h.csv, line 2: expected one number .* not 'long'"),
        ("12o\n130\n", "h.csv, line 1: expected one number .* not '12o'"),
        ("job,duration\n1,5\n", "h.csv, line 1: expected one number .* not 'job,duration'"),
        ("duration\n1,5\n", "h.csv, line 2: expected one number .* not '1,5'"),
    ],
)
def test_wrong_file_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        parse_history(text, "h.csv")


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*nope\.csv"):
        load_history(str(tmp_path / "nope.csv"), read_text)


def test_uniform_samples_are_the_middles_of_equal_parts() -> None:
    assert distribution_history("uniform:0,10", quantiles=5) == (
        1_000_000,
        3_000_000,
        5_000_000,
        7_000_000,
        9_000_000,
    )


def test_exponential_samples_are_its_quantiles() -> None:
    history = distribution_history("exponential:3600")

    assert len(history) == QUANTILES
    assert history[499] == round(3600 * -log(1 - 0.4995) * 1000) * 1000
    assert sum(history) / len(history) == pytest.approx(3600e6, rel=0.001)


def test_lognormal_median_is_the_exponential_of_mu() -> None:
    history = distribution_history("lognormal: 7, 1.5", quantiles=1001)

    assert history[500] == 1_096_633_000
    assert [below * above for below, above in zip(history[:500], history[:500:-1], strict=True)][
        ::100
    ] == pytest.approx([1_096_633_000**2] * 5, rel=1e-3)


def test_equal_distributions_give_equal_integers() -> None:
    first = load_history("lognormal:7,1.5", _unread)

    assert first == load_history("lognormal:7,1.5", _unread)
    assert {type(sample) for sample in first} == {int}
    assert all(sample % 1000 == 0 for sample in first)


def test_tiny_samples_stay_above_zero() -> None:
    assert distribution_history("exponential:0.000001", quantiles=2) == (1000, 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exponential:", "exponential:MEAN with a number above 0"),
        ("exponential:0", "exponential:MEAN"),
        ("exponential:-1", "exponential:MEAN"),
        ("exponential:nan", "exponential:MEAN"),
        ("exponential:1,2", "exponential:MEAN"),
        ("lognormal:7", "lognormal:MU,SIGMA with two numbers, SIGMA above 0"),
        ("lognormal:7,0", "lognormal:MU,SIGMA"),
        ("lognormal:7,x", "lognormal:MU,SIGMA"),
        ("uniform:5,5", "uniform:LOW,HIGH with two numbers, 0 <= LOW < HIGH"),
        ("uniform:-1,5", "uniform:LOW,HIGH"),
        ("uniform:0,inf", "uniform:LOW,HIGH"),
    ],
)
def test_wrong_numbers_of_a_distribution_are_an_error(text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"^'{text}': expected {expected}"):
        load_history(text, _unread)


@pytest.mark.parametrize("text", ["lognormal:1000,1", "lognormal:30,1", "exponential:1e12"])
def test_distribution_that_is_too_wide_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="samples"):
        load_history(text, _unread)


def test_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no history 'weibull:1,2'; expected builtin:NAME, exp"):
        load_history("weibull:1,2", _unread)
    with pytest.raises(ConfigError, match="no distribution 'weibull'; known: exponential, log"):
        distribution_history("weibull:1,2")
