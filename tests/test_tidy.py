"""The properties of the code itself: lengths, names, bans, docstrings, addresses.

The rules are the style guide's; the checkers live in tests/tidy/, each with snippets that must
fail (tests/tidy/test_checkers.py), because a check that cannot fail is a defect.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.tidy import bans, clocks, rooms, sizes, words
from tests.tidy.source import Finding, Source, repository_sources

Checker = Callable[[Source], Iterator[Finding]]

CODE_CHECKERS: tuple[Checker, ...] = (
    sizes.functions,
    sizes.lines,
    bans.async_in_core,
    bans.blind_except,
    bans.clock_and_chance,
    bans.newer_methods,
    bans.outside_world,
    bans.set_iteration,
    bans.unsorted_listing,
    clocks.direct_time,
    words.docstrings,
    words.file_names,
    words.ignores,
    words.package_files,
    words.todos,
)
TEXT_CHECKERS: tuple[Checker, ...] = (words.machine_paths, words.registry_addresses)


@pytest.fixture(scope="module")
def sources() -> tuple[Source, ...]:
    return repository_sources()


def named(checker: Callable[..., object]) -> str:
    return f"{checker.__module__.rpartition('.')[2]}-{checker.__name__}"


def report(findings: list[Finding]) -> str:
    return "\n".join(["", *map(str, findings)])


def test_repository_is_read(sources: tuple[Source, ...]) -> None:
    paths = {source.path for source in sources}
    assert {"pyproject.toml", "shunter/errors.py", "tests/test_tidy.py"} <= paths


@pytest.mark.parametrize("checker", CODE_CHECKERS, ids=named)
def test_code_holds(checker: Checker, sources: tuple[Source, ...]) -> None:
    findings = [found for source in sources if source.is_python for found in checker(source)]
    assert not findings, report(findings)


@pytest.mark.parametrize("checker", TEXT_CHECKERS, ids=named)
def test_every_file_holds(checker: Checker, sources: tuple[Source, ...]) -> None:
    findings = [found for source in sources for found in checker(source)]
    assert not findings, report(findings)


@pytest.fixture(scope="module")
def houses(sources: tuple[Source, ...]) -> tuple[rooms.House, ...]:
    return tuple(
        rooms.House(sources, top) for top in ("shunter", "shunter_papers", "shunter_peers")
    )


def test_no_import_comes_back_to_where_it_began(houses: tuple[rooms.House, ...]) -> None:
    for house in houses:
        circle = rooms.module_circle(house)
        assert not circle, " imports ".join(circle)


def test_no_two_parts_of_a_folder_import_each_other(houses: tuple[rooms.House, ...]) -> None:
    circles = [" imports ".join(found) for house in houses for found in rooms.folder_circles(house)]
    assert not circles, "\n".join(["", *circles])


@pytest.mark.parametrize("checker", [rooms.faces, rooms.class_names], ids=named)
def test_rooms_hold(
    checker: Callable[[rooms.House], Iterator[Finding]], houses: tuple[rooms.House, ...]
) -> None:
    findings = list(checker(houses[0]))
    assert not findings, report(findings)
