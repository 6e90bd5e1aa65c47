"""Ten commits play what one would play without slices, and a run says which tenth it is."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests import slices
from tests.slices import SLICES, Rotation, searched, seeds, slice_number

ROOT = Path(__file__).parents[2]
ROTATING = """
import pytest
from tests.slices import Rotation

def pytest_configure(config):
    config.pluginmanager.register(Rotation())
"""
CASES = """
import pytest

@pytest.mark.rotating("seed")
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("name", ["a", "b"])
def test_name(name, seed):
    pass

@pytest.mark.parametrize("seed", range(3))
def test_other(seed):
    pass

@pytest.mark.rotating(among="runs")
def test_here():
    pass

@pytest.mark.rotating("seed", among="runs")
@pytest.mark.parametrize("seed", [1])
def test_there(seed):
    pass
"""


def collected(folder: Path, *options: str, **surroundings: str) -> Counter[str]:
    """Return how many cases of which tests and names a run would play."""
    (folder / "conftest.py").write_text(ROTATING)
    (folder / "test_some.py").write_text(CASES)
    without = {key: text for key, text in os.environ.items() if not key.startswith("SHUNTER_")}
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-o",
            "markers=rotating",
            *options,
        ],
        cwd=folder,
        env=without
        | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        | surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    cases = [line for line in ran.stdout.splitlines() if "::" in line]
    return Counter(case.partition("::")[2].partition("-")[0] for case in cases)


@pytest.fixture
def _rotating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "THOROUGH", False)


@pytest.mark.usefixtures("_rotating")
@pytest.mark.parametrize("count", [1, 2, 7, 10, 12, 100, 101])
def test_ten_slices_play_every_case_and_each_its_tenth(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: Counter[int] = Counter()
    for number in range(SLICES):
        monkeypatch.setenv(slices.NAME, str(number))
        own = list(seeds(count))
        assert max(1, count // SLICES) <= len(own) <= -(-count // SLICES)
        played.update(own)
    assert sorted(played) == list(range(count))
    assert count < SLICES or set(played.values()) == {1}


def test_thorough_run_plays_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "THOROUGH", True)
    assert list(seeds(25)) == list(range(25))


def test_seeds_rotate_for_each_of_the_other_arguments_and_nothing_else_does(tmp_path: Path) -> None:
    played = collected(tmp_path, SHUNTER_SLICE="3")
    others = {f"test_other[{number}]": 1 for number in range(3)}
    assert played["test_here"] + played.pop("test_there[1]", 0) == 1
    del played["test_here"]
    assert played == {"test_name[a": 2, "test_name[b": 2} | others
    thorough = collected(tmp_path, SHUNTER_THOROUGH="1")
    assert (
        thorough
        == {"test_name[a": 25, "test_name[b": 25, "test_here": 1, "test_there[1]": 1} | others
    )


def test_at_least_one_of_the_chosen_cases_runs_and_named_ones_all_do(tmp_path: Path) -> None:
    assert collected(tmp_path, "-k", "a-17 or a-18") == {"test_name[a": 1}
    named = (f"test_some.py::test_name[a-{number}]" for number in (17, 18))
    assert collected(tmp_path, *named) == {"test_name[a": 2}


@pytest.mark.usefixtures("_rotating")
def test_header_says_which_slice_it_is_and_how_to_run_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(slices.NAME, "3")
    assert Rotation().pytest_report_header() == (
        "seeds: slice 3 of 10, by the number of commits; another by SHUNTER_SLICE=0 to 9,"
        " all by SHUNTER_THOROUGH=1"
    )


def test_archive_without_git_has_a_slice_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "none"))
    monkeypatch.delenv(slices.NAME, raising=False)
    assert slice_number() == 0


def test_slice_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slices.NAME, "10")
    with pytest.raises(pytest.UsageError, match="expected a number from 0 to 9"):
        slice_number()


@pytest.mark.usefixtures("_rotating")
def test_slices_search_for_other_examples_and_each_for_the_same_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SHUNTER_HYPOTHESIS", raising=False)

    def found(number: int) -> list[int]:
        monkeypatch.setenv(slices.NAME, str(number))
        drawn: list[int] = []

        @searched(200)
        @given(one=st.integers(0, 10**9))
        def search(one: int) -> None:
            drawn.append(one)

        search()
        return drawn

    first = found(1)
    assert len(first) == 20
    assert found(1) == first
    assert found(2) != first
