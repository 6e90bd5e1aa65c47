"""Events with a field of a wrong type under a valid chain fail every command in our words."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.errors import LogSchemaError, ShunterError
from shunter.events import Event, JobSubmitted
from shunter.events.log import open_log, read_log
from tests.factories import policy, run
from tests.faults.test_log_edits import COMMANDS, WORLD

VALUES = ("x", [1], None, 1.5)
GOOD = run(WORLD, policy("las")).events


def wrong() -> list[tuple[int, str, Any]]:
    """Return where the first event of each kind is, with every field and value that it can have."""
    first: dict[type[Event], int] = {}
    for place, event in enumerate(GOOD):
        first.setdefault(type(event), place)
    return [
        (place, name, value)
        for kind, place in first.items()
        for name in getattr(kind, "__struct_fields__", ())
        for value in VALUES
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_no_command_fails_but_by_an_error_of_ours(tmp_path: Path, value: Any) -> None:
    found = 0
    for number, (place, name, wanted) in enumerate(wrong()):
        if wanted is not value:
            continue
        path = str(tmp_path / f"{number}.db")
        try:
            bad = replace(GOOD[place], **{name: value})
            async with open_log(path, frame_events=50) as log:
                log.append([*GOOD[:place], bad, *GOOD[place + 1 :]])
        except (TypeError, ShunterError):
            continue  # no log can say that
        for command in COMMANDS:
            try:
                async with read_log(path) as reader:
                    await command(reader)
            except LogSchemaError:
                found += 1
            except ShunterError:
                pass
    assert found > 0


@pytest.mark.parametrize("words", [("replay",), ("log", "verify")])
def test_command_says_in_one_line_which_event_is_wrong(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    place = next(place for place, event in enumerate(GOOD) if isinstance(event, JobSubmitted))
    path = tmp_path / "wrong.db"

    at_us: Any = "x"
    bad = replace(GOOD[place], at_us=at_us)

    async def write() -> None:
        async with open_log(str(path), frame_events=50) as log:
            log.append([*GOOD[:place], bad, *GOOD[place + 1 :]])

    asyncio.run(write())
    found = CliRunner().invoke(app, [*words, str(path)])
    assert found.exit_code == 2
    (line,) = found.stderr.strip().splitlines()
    assert f"the event {place + 1} violates its schema" in line
