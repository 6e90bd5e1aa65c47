"""Writes the reference pages that are made from the code: config.md and cli.md.

    python docs/generate.py

A test holds the pages to what this prints, so run it after a change of a config model or command.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer import Context
from typer.core import TyperGroup
from typer.main import get_command

from shunter.cli import HEADINGS, app
from shunter.client import HEADINGS as OPTION_HEADINGS
from shunter.config import find_policy, json_schema
from shunter.policies import FAMILIES

WHOLE_LESS_THAN = 2**31
HELP_MOST = 200
FOLDER = Path(__file__).resolve().parent / "reference"

CONFIG_HEAD = """\
# Config file

One TOML file, strict: an unknown key, a wrong type or a value out of bounds is an error that names
the file, the line, the key and what was expected (exit code 2). `shunter config validate FILE`
checks one, `shunter config schema` prints its JSON schema for editors.

Values are merged, the later the stronger: defaults, the file, the environment (`SHUNTER_SEED=3`,
`SHUNTER_POLICY__NAME=las`, `SHUNTER_CLUSTER__NODES__0__GPUS=8`), the command line
(`--set policy.name=las`, `--set cluster.nodes.0.gpus=8`). A value given there is read as TOML, else
as text. `shunter config show FILE --origin` says where each value came from. A trace named later
takes the place of `[workload.generate]`, and the other way round; so do a cluster file and
`[[cluster.nodes]]`. Of a cluster file its servers are recorded, as if they were tables of the file.

Paths in the file are relative to the file; in the environment and on the command line they are
relative to the working directory. A *duration* is a number of seconds or a text such as `"90s"`,
`"5m"`, `"1h30m"`, `"2d"`. Where no upper bound is given, a whole number is
less than 2,147,483,648.

This page is made from the models by `docs/generate.py`.
"""
CLI_HEAD = """\
# Command line

Data goes to stdout, everything else (faults of a trace, progress, errors) to stderr. `--json`
prints one document and nothing else. `NO_COLOR` or `--no-color` turns colour off. What each exit
code means is in [exit codes](exit-codes.md).

This page is made from the commands by `docs/generate.py`.
"""


FIRST_KEYS = (
    *("cluster.nodes[].name", "cluster.nodes[].gpus", "cluster.nodes[].type"),
    *("cluster.nodes[].cpus", "cluster.nodes[].memory_gb", "policy.name", "policy.placement"),
    *("queues.NAME.quota_gpus", "backend.kind", "server.listen", "log.url", "workload.trace"),
)
"""The keys that most people need: servers, who decides, quotas, where jobs run and events go."""


def config_page() -> str:
    """Return the page on config files, made from the JSON schema."""
    schema = json_schema()
    tables = dict(_tables(schema, schema["$defs"], ""))
    parts = [CONFIG_HEAD, *_first_keys(tables), *_families()]
    for path, table in tables.items():
        parts += _section(path, *table)
    return "\n".join(parts)


def cli_page() -> str:
    """Return the page on commands, made from the commands."""
    command = get_command(app)
    return "\n".join([CLI_HEAD, *_overview(command), *_commands(command, "shunter")])


def _first_keys(tables: dict[str, tuple[str, dict[str, str]]]) -> Iterator[str]:
    """Yield the section of the keys that most people need."""
    yield "## The twelve keys that most people need\n"
    yield (
        "All others have defaults that go with these. A live backend also needs its table; "
        "`shunter init` writes it. [Placement](placement.md) says what the values of "
        "`policy.placement` mean.\n"
    )
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    for path in FIRST_KEYS:
        table, _, key = path.rpartition(".")
        yield tables[table][1][key].replace(f"`{key}`", f"`{path}`", 1)
    yield ""


def _families() -> Iterator[str]:
    """Yield the section of the policies that `policy.name` may name."""
    yield "## Which policy to name\n"
    yield (
        "`shunter policy list` says what each of them does, and [Policies](policies.md) how they "
        "differ. One with a * is an oracle: it uses true durations, which no scheduler knows.\n"
    )
    yield "| family | when to use it | `policy.name` |\n|---|---|---|"
    for family in FAMILIES:
        names = ", ".join(
            f"`{name}`" + (r" \*" if find_policy(name).oracle else "") for name in family.policies
        )
        yield f"| {family.name} | {family.when} | {names} |"
    yield ""


def _overview(command: Any) -> Iterator[str]:
    """Yield the commands below their headings, as `shunter --help` lists them."""
    for heading, names in HEADINGS.items():
        yield f"| {heading} | |\n|---|---|"
        for name in names:
            found = command.get_command(Context(command), name)
            yield f"| `{name}` | {found.get_short_help_str(HELP_MOST)} |"
        yield ""


def _tables(
    table: dict[str, Any], models: dict[str, Any], path: str
) -> Iterator[tuple[str, tuple[str, dict[str, str]]]]:
    """Yield each table with a key of its own: its path, description, and a row for each key."""
    rows, inner = {}, []
    for key, field in table["properties"].items():
        model, name = _model_of(field, models, f"{path}.{key}" if path else key)
        if model is None:
            rows[key] = _row(key, field, key in table.get("required", ()))
        else:
            inner.append((model, name))
    if rows:
        yield path, (table.get("description", ""), rows)
    for model, name in inner:
        yield from _tables(model, models, name)


def _section(path: str, description: str, rows: dict[str, str]) -> Iterator[str]:
    yield f"## {_heading(path)}\n"
    if path:
        yield f"{description}\n"
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    yield "\n".join(rows.values()) + "\n"


def _heading(path: str) -> str:
    if not path:
        return "Top level"
    return f"`[[{path[:-2]}]]`" if path.endswith("[]") else f"`[{path}]`"


def _model_of(field: dict[str, Any], models: dict[str, Any], path: str) -> tuple[Any, str]:
    """Return the model of a table, and how its header is written; None for plain values."""
    for option in (field, *field.get("anyOf", ())):
        if "$ref" in option:
            model = models[option["$ref"].rpartition("/")[2]]
            return (model, path) if "properties" in model else (None, path)
        items = option.get("items", {})
        if isinstance(items, dict) and "$ref" in items:
            return models[items["$ref"].rpartition("/")[2]], f"{path}[]"
        entries = option.get("additionalProperties")
        if isinstance(entries, dict) and "$ref" in entries:
            return models[entries["$ref"].rpartition("/")[2]], f"{path}.NAME"
    return None, path


def _row(key: str, field: dict[str, Any], is_required: bool) -> str:
    default = "required" if is_required else _default(field)
    meaning = field.get("description", "").replace("|", "\\|")
    return f"| `{key}` | {_kind(field)} | {default} | {meaning} |"


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    return "" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _kind(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(
            _kind(option) for option in field["anyOf"] if option.get("type") != "null"
        )
    if "enum" in field:
        return ", ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "$ref" in field:
        return _enum(field["$ref"])
    if str(field.get("title", "")).startswith("duration"):
        return "duration" + _bounds(field)
    names = {
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "boolean": "yes or no",
    }
    names |= {"array": "list", "object": "table"}
    return names.get(str(field.get("type")), "value") + _bounds(field)


def _enum(reference: str) -> str:
    values = json_schema()["$defs"][reference.rpartition("/")[2]]["enum"]
    return ", ".join(f"`{json.dumps(value)}`" for value in values)


def _bounds(field: dict[str, Any]) -> str:
    """Return the bounds of a number, but for that of every whole number."""
    if "minimum" in field and "maximum" in field:
        return f", {_number(field['minimum'])} to {_number(field['maximum'])}"
    said = ""
    if "minimum" in field:
        said += f", {_number(field['minimum'])} or more"
    if "exclusiveMinimum" in field:
        said += f", more than {_number(field['exclusiveMinimum'])}"
    if "maximum" in field:
        said += f", {_number(field['maximum'])} or less"
    if field.get("exclusiveMaximum", WHOLE_LESS_THAN) != WHOLE_LESS_THAN:
        said += f", less than {_number(field['exclusiveMaximum'])}"
    return said


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.15g}"


def _commands(command: Any, name: str) -> Iterator[str]:
    """Yield a section for each command that does something itself."""
    if not isinstance(command, TyperGroup):
        yield from _command(command, name)
        return
    if command.invoke_without_command:
        yield from _command(command, name)
    context = Context(command)
    for part in command.list_commands(context):
        found = command.get_command(context, part)
        if not found.hidden:
            yield from _commands(found, f"{name} {part}")


def _command(command: Any, name: str) -> Iterator[str]:
    """Yield the section of one command."""
    yield f"## {name}\n"
    yield f"{(command.help or '').strip()}\n"
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    shown = " ".join(_argument(param) for param in arguments)
    yield f"```\n{name} [OPTIONS] {shown}".rstrip() + "\n```\n"
    options = [param for param in command.params if param.param_type_name == "option"]
    rows: dict[str, list[str]] = {}
    for param in options:
        if not param.hidden:
            rows.setdefault(param.rich_help_panel or [*OPTION_HEADINGS][-1], []).append(
                _option(param)
            )
    is_grouped = len(rows) > 1
    for heading in OPTION_HEADINGS:
        if listed := rows.pop(heading, ()):
            title = heading if is_grouped else "option"
            yield f"| {title} | meaning |\n|---|---|"
            yield "\n".join(listed) + "\n"


def _argument(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _option(param: Any) -> str:
    names = ", ".join(f"`{option}`" for option in param.opts)
    metavar = (param.metavar or param.name.upper()).replace("|", "\\|")
    value = "" if param.is_flag else f" `{metavar}`"
    default = param.default
    is_plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    after = f" (default {default})" if is_plain and default != "" else ""
    meaning = (param.help or "").replace("|", "\\|").replace("\n", " ")
    return f"| {names}{value} | {meaning}{after} |"


PAGES = {"config.md": config_page, "cli.md": cli_page}

if __name__ == "__main__":
    for page, made in PAGES.items():
        (FOLDER / page).write_text(made().rstrip("\n") + "\n", encoding="utf-8")
