"""What the tool that mutates statements draws, and what it makes of them (tests/mutants.py)."""

import ast
import itertools
import shutil
import sys
from pathlib import Path

import pytest

from tests.mutants import drawn, functions_of, main, mutated

ROOM = Path(__file__).parents[2] / "shunter/core/planning"
TEXT = '''
"""About rooms."""

import logging

__all__ = ["Room"]
_log = logging.getLogger(__name__)


class Room:
    """What has desks."""

    def take(self, count: "int" = 1) -> bool:
        """Take desks."""
        _log.info("taken 1")
        assert count > 0
        if count < 0:
            raise ValueError(f"{1 + count} desks")
        elif count == 9:
            count += 1
        self.free = self.free - count
        self.tell()
        return True
'''


def _tree(folder: Path, text: str, file: str = "rooms.py") -> Path:
    (folder / "shunter").mkdir(parents=True)
    (folder / "shunter/__init__.py").write_text("")
    (folder / "shunter" / file).write_text(text)
    return folder


def _told(before: Path, after: Path, seed: int) -> set[tuple[str, str]]:
    return {(mutant.old, mutant.new) for mutant in drawn(before, after, seed, 100)}


def test_every_fault_is_of_a_kind_and_none_in_what_is_never_mutated(tmp_path: Path) -> None:
    """No logging, no assertion, no message, no docstring, no annotation, no default, no elif."""
    old, new = _tree(tmp_path / "old", TEXT), _tree(tmp_path / "new", TEXT, "halls.py")
    told = set(itertools.chain.from_iterable(_told(old, new, seed) for seed in range(40)))
    assert told == {
        ("count < 0", "(not count < 0)"),
        ("count < 0", "(count >= 0)"),
        ("0", "1"),
        ("count += 1", "count -= 1"),
        ("1", "2"),
        ("self.free - count", "(self.free + count)"),
        ("self.tell()", "pass"),
        ("True", "None"),
        ("True", "False"),
    }


def test_function_that_moved_is_drawn_with_its_line_in_each_tree(tmp_path: Path) -> None:
    old, new = _tree(tmp_path / "old", TEXT), _tree(tmp_path / "new", "\n\n" + TEXT, "halls.py")
    for mutant in drawn(old, new, 1, 100):
        assert (mutant.before[0], mutant.after[0]) == ("shunter/rooms.py", "shunter/halls.py")
        assert mutant.after[1] == mutant.before[1] + 2


def test_changed_function_is_not_drawn_but_one_with_another_docstring_is(tmp_path: Path) -> None:
    old = _tree(tmp_path / "old", TEXT)
    assert drawn(old, _tree(tmp_path / "new", TEXT.replace("count == 9", "count == 8")), 1, 9) == []
    assert drawn(old, _tree(tmp_path / "told", TEXT.replace("Take desks", "Take them")), 1, 9)


def test_same_seed_draws_the_same_and_as_many_as_are_asked_for(tmp_path: Path) -> None:
    old, new = _tree(tmp_path / "old", TEXT), _tree(tmp_path / "new", TEXT)
    assert drawn(old, new, 7, 5) == drawn(old, new, 7, 5)
    assert len(drawn(old, new, 7, 2)) == 2


def test_function_that_stands_twice_is_not_drawn(tmp_path: Path) -> None:
    tree = _tree(tmp_path / "old", TEXT)
    (tree / "shunter/more.py").write_text(TEXT)
    assert functions_of(tree) == {}


def test_every_mutant_of_a_room_is_a_program_that_differs(tmp_path: Path) -> None:
    tree = tmp_path
    shutil.copytree(ROOM, tree / "shunter")
    for mutant in drawn(tree, tree, 35, 60):
        source = (tree / mutant.after[0]).read_bytes()
        changed = mutated(source, mutant.places[1], mutant.new)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), mutant


def test_place_is_counted_in_bytes_and_may_span_lines() -> None:
    source = "é = (1 +\n     2)\nrest\n".encode()
    assert mutated(source, (1, 6, 2, 6), "3").decode() == "é = (3)\nrest\n"


@pytest.mark.parametrize(
    ("kept", "status", "words"),
    [(False, 1, "1 caught before and lost after"), (True, 0, "0 caught before and lost after")],
)
def test_lost_test_is_told_and_all_files_are_put_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: bool, status: int, words: str
) -> None:
    """Two trees of one function; one lost its test, or starts a process for it."""
    looks = "from shunter.one import add\ndef test_looks():\n    assert add(1, 2) == 3\n"
    runs = (
        "import pytest, subprocess, sys\n@pytest.fixture(scope='module')\ndef said():\n"
        "    text = 'from shunter.one import add; print(add(1, 2))'\n"
        "    return subprocess.check_output([sys.executable, '-c', text])\n"
        "def test_first(said):\n    assert said\n"
        "def test_second(said):\n    assert int(said) == 3\n"
    )
    calls = "from shunter.one import add\ndef test_calls():\n    add(1, 2)\n"
    text = "def add(one, two):\n    return one + two\n"
    for name, test in (("old", looks), ("new", runs if kept else calls)):
        tree = _tree(tmp_path / name, text, "one.py")
        (tree / "tests/unit").mkdir(parents=True)
        (tree / "tests/unit/test_one.py").write_text(test)
        (tree / "conftest.py").write_text("")
        (tree / "pytest.ini").write_text(
            "[pytest]\npythonpath = .\nfilterwarnings = error\nmarkers =\n    live\n    fidelity\n"
        )
        (tree / ".venv/bin").mkdir(parents=True)
        python = tree / ".venv/bin/python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
    ends = ["--before", str(tmp_path / "old"), "--after", str(tmp_path / "new")]
    folder = str(tmp_path / "found")
    assert main(["--seed", "1", "--count", "1", *ends, "--folder", folder]) == status
    assert words in capsys.readouterr().out
    assert {(tmp_path / name / "shunter/one.py").read_text() for name in ("old", "new")} == {text}
