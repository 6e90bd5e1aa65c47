"""The distribution `shunter-peers`: what it brings, and that Shunter itself brings none of it."""

import tomllib
from pathlib import Path
from typing import Any

from shunter.app.plugins import PEERS

ROOT = Path(__file__).resolve().parents[2]


def project(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    return found


def test_entry_points_are_those_that_shunter_knows_to_be_there() -> None:
    brought = project("peers")["entry-points"]
    assert {group: brought[group].keys() for group in PEERS} == PEERS


def test_shunter_names_neither_the_policies_nor_their_solver() -> None:
    shunter = project(".")

    assert all(
        names.isdisjoint(shunter["entry-points"].get(group, {})) for group, names in PEERS.items()
    )
    assert "ecos" not in shunter["optional-dependencies"]
