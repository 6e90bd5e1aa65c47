"""Our other distributions: what they bring, and that Shunter itself brings none of it."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from shunter.plugins import BROUGHT

ROOT = Path(__file__).resolve().parents[2]


def project(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    return found


@pytest.mark.parametrize("folder", ["papers", "peers"])
def test_entry_points_are_those_that_shunter_knows_to_be_there(folder: str) -> None:
    known = {
        group: {name for name, brings in brought.items() if brings == folder}
        for group, brought in BROUGHT.items()
    }
    brought = project(folder)["entry-points"]
    assert {group: set(points) for group, points in brought.items()} == {
        group: names for group, names in known.items() if names
    }


def test_shunter_names_neither_the_policies_nor_their_solver() -> None:
    shunter = project(".")

    assert all(
        names.keys().isdisjoint(shunter["entry-points"].get(group, {}))
        for group, names in BROUGHT.items()
    )
    assert "ecos" not in shunter["optional-dependencies"]
