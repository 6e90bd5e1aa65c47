"""What docs/reference/extending.md promises to packages can be imported from where it says."""

import re
from importlib import import_module

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "extending.md"
PROMISED = re.compile(r"`(shunter(?:\.[a-z_]+)+)\.([A-Z]\w+)`")
NAMES = sorted(set(PROMISED.findall(PAGE.read_text(encoding="utf-8"))))


def test_something_is_promised() -> None:
    assert len(NAMES) >= 4


@pytest.mark.parametrize(("room", "name"), NAMES)
def test_what_is_promised_is_in_the_face_of_its_room(room: str, name: str) -> None:
    assert name in import_module(room).__all__
    assert getattr(import_module(room), name)
