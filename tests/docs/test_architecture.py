"""ARCHITECTURE.md: its rooms are the folders there are, its arrows the imports between them."""

import re
from collections import defaultdict

import pytest

from tests.tidy.rooms import House
from tests.tidy.source import ROOT, repository_sources

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([\w.]+)` \| [^|]+ \| ([^|]*)\|$", re.MULTILINE)
PATH = re.compile(r"(?<![\w./])((?:[a-z_]+/)+[a-z_]+)(?![\w/.])")


@pytest.fixture(scope="module")
def house() -> House:
    return House(repository_sources("shunter"), "shunter")


def rooms_of_the_page() -> dict[str, set[str]]:
    return {room: set(re.findall(r"`([\w.]+)`", imports)) for room, imports in ROW.findall(PAGE)}


def room_of(module: str, rooms: dict[str, set[str]]) -> str | None:
    """Return the room of a module of `shunter`, None for one beside the rooms."""
    name = module.removeprefix("shunter.")
    found = [room for room in rooms if name == room or name.startswith(f"{room}.")]
    return max(found, key=len, default=None)


def test_rooms_are_the_folders_there_are(house: House) -> None:
    rooms = rooms_of_the_page()
    tops = {
        name.removeprefix("shunter.").split(".")[0] for name in sorted(house.folders) if "." in name
    }
    assert {room.split(".")[0] for room in rooms} == tops
    backends = {
        name.split(".")[2]
        for name in house.folders
        if name.count(".") == 2 and ".backends." in name
    }
    assert {room.split(".")[1] for room in rooms if "." in room} == backends


def test_arrows_are_the_imports_between_rooms(house: House) -> None:
    rooms, found = rooms_of_the_page(), defaultdict(set)
    for importer, read in house.within:
        one, other = room_of(importer, rooms), room_of(read, rooms)
        if one and other and one != other:
            found[one].add(other)
    assert {room: sorted(found[room]) for room in rooms} == {
        room: sorted(imports) for room, imports in rooms.items()
    }


def test_rooms_come_after_what_they_import() -> None:
    known: set[str] = set()
    for room, imports in rooms_of_the_page().items():
        assert imports <= known, f"{room} imports {sorted(imports - known)}, which comes later"
        known.add(room)


def test_every_chapter_that_is_named_is_there(house: House) -> None:
    named = {path for path in PATH.findall(PAGE) if not path.startswith(("tests/", "docs/"))}
    assert len(named) > 25
    gone = [
        path for path in sorted(named) if f"shunter.{path.replace('/', '.')}" not in house.modules
    ]
    assert gone == []
