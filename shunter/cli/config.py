"""`shunter config`: check a config file and show what is in effect, and `shunter policy`."""

import inspect
import json
from typing import Annotated, Any

import typer

from shunter.cli import output
from shunter.cli.options import CommandGroup, ConfigFile, Json, Settings, load
from shunter.counting import counted
from shunter.errors import ConfigError

config_commands = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="Check and show config files."
)


@config_commands.command()
def validate(config: ConfigFile, settings: Settings = None) -> None:
    """Check a file, its overrides and its jobs, as a run would (wrong: exit 2)."""
    from shunter.config import policy_runtime
    from shunter.daemon import served_notes
    from shunter.run import load_jobs, servers_out_of_range, set_up

    loaded = load(config, settings)
    told: list[str] = []
    warnings = served_notes(loaded)
    if loaded.config.workload.has_jobs:
        trace = load_jobs(loaded)
        told = [f"{trace.source}: {sentence}" for sentence in trace.report.sentences()]
        warnings += set_up(loaded, trace).notes
    else:
        policy_runtime(loaded, instant=False)  # refused as by a daemon
        warnings += servers_out_of_range(loaded)
    cluster = loaded.config.cluster
    servers = len(cluster.servers())
    gpus = counted(cluster.gpus, "GPU")
    units = f" and {cluster.units:,} units of CPU" if cluster.units else ""
    output.print_line(f"{config}: right; {gpus}{units} on {counted(servers, 'server')}")
    for sentence in told:
        output.note(sentence)
    for warning in warnings:
        output.note(f"warning: {warning}")


@config_commands.command("show")
def show_config(
    config: ConfigFile,
    settings: Settings = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Say where each value came from.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print every key with the value in effect, as --set takes it."""
    from shunter.config import effective, settings as settings_of

    loaded = load(config, settings)
    if as_json and not origin:
        output.print_json(effective(loaded))
        return
    rows = settings_of(loaded)
    if as_json:
        output.print_json(
            [{"key": row.key, "value": row.value, "origin": row.origin} for row in rows]
        )
    elif origin:
        output.print_pairs([(f"{row.key} = {row.text}", f"# {row.origin}") for row in rows])
    else:
        for row in rows:
            output.print_line(f"{row.key} = {row.text}")


@config_commands.command("schema")
def print_config_schema() -> None:
    """Print the JSON schema of config files."""
    from shunter.config import json_schema

    output.print_json(json_schema())


# `shunter policy`.

policy_commands = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="List policies and show their parameters."
)


@policy_commands.command("list")
def list_policies(as_json: Json = False) -> None:
    """List the installed policies in families; one that cannot be used says why."""
    from shunter.config import POLICIES
    from shunter.policies import FAMILIES, Family

    documents = {name: _listed_policy(name) for name in POLICIES.names()}
    if as_json:
        output.print_json([*documents.values()])
        return
    others = documents.keys() - {name for family in FAMILIES for name in family.policies}
    width = max(map(len, documents)) + 1
    for family in (*FAMILIES, Family("Of other packages", "", tuple(sorted(others)))):
        if installed := [name for name in family.policies if name in documents]:
            output.print_line(f"{family.name}: {family.when}".removesuffix(": "))
            for name in installed:
                star = "*" if documents[name]["oracle"] else ""
                output.print_line(f"  {name + star:{width}}  {documents[name]['summary']}")
            output.print_line()
    output.print_line("* oracle: uses true durations, which no scheduler knows")


@policy_commands.command("show")
def show_policy(
    name: Annotated[str, typer.Argument(metavar="NAME")], as_json: Json = False
) -> None:
    """Show what a policy does and which parameters it takes, with defaults and units."""
    document = _policy_document(name)
    if as_json:
        output.print_json(document)
        return
    oracle = " (an oracle: it uses true durations)" if document["oracle"] else ""
    output.print_line(f"{document['name']}{oracle}: {document['summary']}")
    output.print_line()
    output.print_line(document["source"])
    output.print_line()
    if not document["params"]:
        output.print_line("It takes no parameters.")
        return
    output.print_line(f"[policy.params.{document['name']}]")
    for param in document["params"]:
        output.print_line(f"{param['key']} = {json.dumps(param['default'])}")
        output.print_line(f"    {param['description']}")


def _listed_policy(name: str) -> dict[str, Any]:
    """Return what is known of a policy, or why it cannot be used."""
    try:
        return _policy_document(name)
    except ConfigError as error:
        problem = " ".join(str(error).split())
        summary = f"cannot be used: {problem}"
        return {
            "name": name,
            "oracle": False,
            "summary": summary,
            "source": "",
            "params": [],
            "problem": problem,
        }


def _policy_document(name: str) -> dict[str, Any]:
    from pydantic import ValidationError

    from shunter.config import find_policy

    plugin = find_policy(name)
    module = inspect.getmodule(plugin)
    try:
        defaults = plugin.Params().model_dump(mode="json", by_alias=True)
    except ValidationError as error:
        wanted = ", ".join(".".join(map(str, fault["loc"])) for fault in error.errors())
        raise ConfigError(
            f"policy {name!r}: not every parameter has a default: {wanted}"
        ) from error
    return {
        "name": name,
        "oracle": plugin.oracle,
        "summary": (inspect.getdoc(plugin) or "").partition("\n")[0],
        "source": inspect.getdoc(module) or "" if module else "",
        "params": [
            {
                "key": field.alias or attribute,
                "default": defaults[field.alias or attribute],
                "description": field.description or "",
            }
            for attribute, field in plugin.Params.model_fields.items()
        ],
    }
