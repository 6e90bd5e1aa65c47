"""`shunter policy`: which policies there are, and what each one takes."""

import inspect
import json
from typing import Annotated, Any

import typer

from shunter.cli import output
from shunter.cli.options import Json

commands = typer.Typer(no_args_is_help=True, help="List policies and show their parameters.")


@commands.command(name="list")
def list_policies(as_json: Json = False) -> None:
    """List the installed policies; one that cannot be used says why."""
    from shunter.config import POLICIES

    documents = [_listed(name) for name in POLICIES.names()]
    if as_json:
        output.print_json(documents)
        return
    output.print_table(
        ["policy", "what it does"],
        [
            [document["name"] + ("*" if document["oracle"] else ""), document["summary"]]
            for document in documents
        ],
    )
    output.print_line("* oracle: uses true durations, which no scheduler knows")


@commands.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME")], as_json: Json = False) -> None:
    """Show what a policy does and which parameters it takes, with defaults and units."""
    document = _document(name)
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


def _listed(name: str) -> dict[str, Any]:
    """Return what is known of a policy, or why it cannot be used."""
    from shunter.errors import ConfigError

    try:
        return _document(name)
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


def _document(name: str) -> dict[str, Any]:
    from pydantic import ValidationError

    from shunter.config import find_policy
    from shunter.errors import ConfigError

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
