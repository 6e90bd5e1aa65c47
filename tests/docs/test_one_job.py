"""The walk through the code in docs/explanation/one-job.md: every file and name is there."""

import ast
import re
import sys
from pathlib import Path
from types import FrameType

from shunter.config import make_config
from shunter.run import simulate

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "one-job.md"
STOP = re.compile(r"^(\d+)\. `(shunter/[\w/]+\.py)`: `(\w+)` ", re.MULTILINE)


def stops() -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = STOP.findall(PAGE.read_text())
    return found


def defined_in(path: Path) -> set[str]:
    """Return the names that a module defines."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_stops_are_numbered_and_none_is_left_out() -> None:
    numbered = re.findall(r"^\d+\. ", PAGE.read_text(), re.MULTILINE)
    assert [int(number) for number, _, _ in stops()] == list(range(1, len(numbered) + 1))


def test_every_file_is_there_and_defines_what_is_named() -> None:
    missing = [
        f"{number}. {path}: {name}"
        for number, path, name in stops()
        if not (ROOT / path).is_file() or name not in defined_in(ROOT / path)
    ]
    assert missing == []


def test_no_name_comes_twice() -> None:
    named = [(path, name) for _, path, name in stops()]
    assert len(named) > 20
    assert len(named) == len(set(named))


def test_page_names_twenty_files_at_most() -> None:
    files = set(re.findall(r"shunter/[\w/]+\.py", PAGE.read_text()))
    assert len(files) <= 20, sorted(files)


LATER_WHEN_LIVE = ("shunter/core/ranking/ranking.py",)
"""Of the policy, which a simulation tells of each fact at once, and a live step of all together."""


def calls_of_one_job() -> list[str]:
    """Return the files of Shunter in the order of the calls that a simulation makes."""
    loaded = make_config(
        {
            "cluster": {"nodes": [{"name": "n1", "gpus": 4}]},
            "policy": {"name": "las"},
            "workload": {"generate": {"jobs": 1, "gpus_max": 2}},
        }
    )
    calls: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(f"{ROOT}/shunter/"):
            calls.append(path.removeprefix(f"{ROOT}/"))

    sys.setprofile(note)
    try:
        simulate(loaded)
    finally:
        sys.setprofile(None)
    return calls[calls.index("shunter/core/round_loop.py") :]


def test_files_of_the_core_have_their_say_in_this_order() -> None:
    calls, at, told = calls_of_one_job(), 0, [""]
    for number, path, name in stops():
        if path.startswith("shunter/core/") and path in calls and path not in LATER_WHEN_LIVE:
            assert path in calls[at:], f"{number}. {path}: {name} comes before {told[-1]}"
            at += calls[at:].index(path)
            told.append(path)
    assert len(told) > 10
