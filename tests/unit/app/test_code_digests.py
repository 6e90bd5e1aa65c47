"""The digest of the code that decides: of Shunter, and of the package a policy is from."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.config import POLICIES
from shunter.run import source_digest, sources_of
from tests.unit.app.conftest import Install


@pytest.fixture
def package(tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a package that gives the policy `theirs`."""
    folder = tmp_path / "their_policies"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "ranks.py").write_text("RANK = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    install(POLICIES, theirs="their_policies.ranks:Theirs")
    source_digest.cache_clear()
    yield folder
    source_digest.cache_clear()
    sys.modules.pop("their_policies", None)


def test_a_policy_of_ours_has_no_package_of_its_own() -> None:
    assert list(sources_of("las")) == ["shunter"]


def test_a_policy_of_others_is_told_with_its_package(package: Path) -> None:
    assert sorted(sources_of("theirs")) == ["shunter", "their_policies"]


def test_a_changed_line_is_another_source(package: Path) -> None:
    before = source_digest("their_policies")

    (package / "ranks.py").write_text("RANK = 2\n")
    source_digest.cache_clear()

    assert source_digest("their_policies") != before


def test_what_python_makes_is_no_source(package: Path) -> None:
    before = source_digest("their_policies")

    made = package / "__pycache__"
    made.mkdir()
    (made / "ranks.cpython-311.pyc").write_bytes(b"made")
    source_digest.cache_clear()

    assert source_digest("their_policies") == before


def test_a_package_that_is_not_there_has_no_digest() -> None:
    assert source_digest("no_such_package_at_all") == ""
