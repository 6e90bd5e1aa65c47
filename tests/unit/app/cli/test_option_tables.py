"""Values that are taken without pydantic are those that Typer makes with it."""

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command

from shunter.cli import take_plain_values


def _command(seen: list[dict[str, Any]]) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command()
    def run(
        job: str,
        words: Annotated[list[str] | None, typer.Argument()] = None,
        gpus: Annotated[int | None, typer.Option(min=0, max=64)] = None,
        quiet: Annotated[bool, typer.Option("--quiet")] = False,
        lines: Annotated[list[str] | None, typer.Option("--line")] = None,
        numbers: Annotated[list[int] | None, typer.Option("--number")] = None,
        path: Annotated[Path | None, typer.Option()] = None,
    ) -> None:
        seen.append({name: value for name, value in locals().items() if name != "seen"})

    return get_command(app)


@pytest.mark.parametrize(
    "arguments",
    [
        ["j1"],
        ["j1", "a", "b", "--gpus", "64", "--quiet"],
        ["j1", "--line", "a", "--line", "b", "--number", "1", "--number", "2"],
        ["j1", "--path", "x/y", "--gpus", "007"],
        [],
        ["j1", "--gpus", "65"],
        ["j1", "--gpus", "-1"],
        ["j1", "--gpus", "two"],
        ["j1", "--gpus", "1_000"],
        ["j1", "--gpus", "99999999999999999999"],
        ["j1", "--gpus", " 5"],
        ["j1", "--gpus", "\u0665"],
        ["j1", "--gpus", "3.0"],
        ["j1", "--number", "x"],
        ["j1", "--nothing"],
        ["j1", "--help"],
    ],
)
def test_command_gets_what_typer_gives_it(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def outcome(command: Any, seen: list[dict[str, Any]]) -> object:
        with pytest.raises(SystemExit) as ended:
            command(arguments, prog_name="run")
        kinds = [{name: type(value) for name, value in each.items()} for each in seen]
        return seen, kinds, ended.value.code, capsys.readouterr()

    usual: list[dict[str, Any]] = []
    plain: list[dict[str, Any]] = []
    expected = outcome(_command(usual), usual)

    assert outcome(take_plain_values(_command(plain)), plain) == expected
