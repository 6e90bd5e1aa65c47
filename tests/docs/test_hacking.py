"""HACKING.md and docs/decisions: each place and file that they name is there."""

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

HACKING = (ROOT / "HACKING.md").read_text(encoding="utf-8")
DECISIONS = ROOT / "docs" / "decisions"
THEMES = sorted(path for path in DECISIONS.glob("*.md") if path.name != "README.md")
ARCHIVE = sorted((DECISIONS / "archive").glob("0*.md"))

QUESTION = re.compile(r"^(\d+)\. \*\*[^*]+\?\*\* (.*?)(?=^\d+\. |^## )", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"`([\w./]+\.py):([\w.]+)`")
FILE = re.compile(
    r"`((?:shunter|tests|docs|examples|peers|papers|train|benchmarks)/[\w./-]*[\w/])`"
)
ROW = re.compile(r"^\| (\d{4}) \| [^|]+ \| (.+?) \|$", re.MULTILINE)


def defined_in(path: Path) -> set[str]:
    """Return the names that a module defines, with `Class.method`."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_twenty_questions_or_more_are_answered_by_places() -> None:
    found = QUESTION.findall(HACKING)
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    assert len(found) >= 20
    assert [number for number, answer in found if not PLACE.search(answer)] == []


def test_every_place_is_there() -> None:
    missing = [
        f"{path}:{name}"
        for path, name in PLACE.findall(HACKING)
        if not (ROOT / path).is_file() or name not in defined_in(ROOT / path)
    ]
    assert missing == []


@pytest.mark.parametrize("page", [ROOT / "HACKING.md", ROOT / "STYLE.md", *THEMES])
def test_every_file_that_is_named_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [name for name in FILE.findall(text) if not (ROOT / name).exists()] == []


def test_each_record_of_the_archive_is_on_a_page() -> None:
    rows = ROW.findall((DECISIONS / "README.md").read_text(encoding="utf-8"))
    assert [number for number, _ in rows] == [path.name[:4] for path in ARCHIVE]
    named = {name for _, pages in rows for name in re.findall(r"\(([\w-]+\.md)\)", pages)}
    assert named == {path.name for path in THEMES}
    assert all("](" in pages for _, pages in rows)


def test_each_decision_that_is_mentioned_is_in_the_table() -> None:
    known = {path.name[:4] for path in ARCHIVE}
    mentioned = re.compile(r"decisions? \[?(0\d{3})|docs/decisions/(0\d{3})")
    folders = ("shunter", "tests", "papers", "peers", "train", "docs")
    gone = {
        f"{path.relative_to(ROOT)}: {number}"
        for folder in folders
        for suffix in ("py", "md", "toml")
        for path in sorted((ROOT / folder).rglob(f"*.{suffix}"))
        for numbers in mentioned.findall(path.read_text(encoding="utf-8"))
        for number in numbers
        if number and number not in known
    }
    assert gone == set()
