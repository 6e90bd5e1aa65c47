"""What somebody who looks for a way is told: commands, extras, options and their values."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from shunter.cli import app, take_plain_values

ROOT = Path(__file__).parents[4]


def test_every_command_and_group_has_a_line_of_help() -> None:
    found = getattr(get_command(app), "commands", {})
    assert [name for name, command in found.items() if not command.get_short_help_str(200)] == []


def test_old_names_of_commands_for_administrators_are_kept_and_not_listed() -> None:
    told = CliRunner().invoke(app, ["--help"]).stdout
    for name in ("profile", "discard-checkpoint", "set-aside"):
        old, new = CliRunner().invoke(app, [name]), CliRunner().invoke(app, ["admin", name])
        assert (old.exit_code, f"  admin {name} " in told, f"  {name} " in told) == (2, True, False)
        assert old.stderr.splitlines()[-1] == new.stderr.splitlines()[-1]
    assert "reindex" not in CliRunner().invoke(app, ["log", "--help"]).stdout
    assert CliRunner().invoke(app, ["log", "reindex", "--help"]).exit_code == 0


@pytest.mark.parametrize("name", ["profile", "discard-checkpoint", "set-aside", "log reindex"])
def test_old_name_of_a_command_tells_the_new_one(name: str) -> None:
    new = f"admin {name.removeprefix('log ')}"
    said = CliRunner().invoke(app, name.split()).stderr.splitlines()[0]
    assert said == f"`shunter {name}` is `shunter {new}` now; the old name will go"
    assert "now; the old name" not in CliRunner().invoke(app, new.split()).stderr


@pytest.mark.parametrize("group", [*("admin", "log", "trace", "config"), *("policy", "group")])
def test_help_of_a_group_shows_whole_sentences(group: str) -> None:
    told = CliRunner().invoke(app, [group, "--help"]).stdout
    assert "..." not in told.partition("\nCommands:\n")[2]


@pytest.mark.parametrize("command", ["submit", "queue", "logs", "replay", "trace generate"])
def test_help_names_values_and_not_their_types_in_python(command: str) -> None:
    told = CliRunner().invoke(app, [*command.split(), "--help"]).stdout
    assert "<" not in told
    if command == "submit":
        assert told.startswith("Usage: shunter submit [OPTIONS] -- CMD… | SCRIPT …\n")
        assert "--steps N " in told


def test_options_of_submit_stand_below_their_headings() -> None:
    told = CliRunner().invoke(app, ["submit", "--help"]).stdout
    _, _, placement = told.partition("\nPlacement:\n")
    assert "--max-level" in placement.partition("\n\n")[0]
    assert "--gpus N" in told.partition("\nResources:\n")[2].partition("\n\n")[0]


def test_readme_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in project["optional-dependencies"] if f"`{name}`" not in readme] == []


def test_help_says_what_waiting_for_the_first_job_of_an_array_means() -> None:
    submit = getattr(get_command(app), "commands", {})["submit"]
    (after,) = [option for option in submit.params if "--after" in option.opts]
    assert "the first job of an array means all its tasks" in after.help


def _command(seen: list[dict[str, Any]]) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command()
    def run(
        job: str,
        words: Annotated[list[str] | None, typer.Argument()] = None,
        gpus: Annotated[int | None, typer.Option(min=0, max=64)] = None,
        cpus: Annotated[float | None, typer.Option(min=0, max=64)] = 1.5,
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
        *(["j1", "--path", path] for path in ("", "-", ".", "/dev/null", "//x/../y/", "a\udce9")),
        *(["j1", "--cpus", cpus] for cpus in ("2", "0.5", "64.0", "007.250", "-0", "64.1", "-1")),
        *(["j1", "--cpus", cpus] for cpus in ("1e1", "1_0.5", ".5", "5.", "+1", " 1", "inf", "x")),
        ["j1", "--cpus", "0.1234567890123456789"],
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
