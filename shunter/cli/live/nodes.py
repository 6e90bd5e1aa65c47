"""`shunter nodes`: the servers with who is on them, and taking them out and putting them back."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import output
from shunter.cli.live.connecting import Url, connect
from shunter.cli.live.tables import print_rows
from shunter.cli.live.topology import picture_of
from shunter.cli.options import Json
from shunter.counting import counted
from shunter.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter.client.requests import Answer

Topology = Annotated[
    bool,
    typer.Option(
        "--topology",
        help="Draw domains, racks, servers, sockets, switches, NVLink, and who is on each GPU.",
    ),
]
Node = Annotated[str, typer.Argument(metavar="NODE", help="The server's name.")]
Gpu = Annotated[
    str,
    typer.Argument(
        metavar="NODE[GPU]", help="The server's name and the GPU's number in it, as in gpu01[2]."
    ),
]
_GPU = re.compile(r"(.+)\[([0-9]{1,6})\]")
COLUMNS = (
    *("NODE", "STATE", "TYPE", output.Column("GPUS", is_number=True)),
    *(output.Column("FREE", is_number=True), output.Column("FREE/CPUS", is_number=True)),
    *(output.Column("FREE/MEMORY MB", is_number=True), "JOBS"),
)
JOBS_NAMED = 6


commands = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@commands.callback()
def nodes(
    ctx: typer.Context, topology: Topology = False, as_json: Json = False, url: Url = None
) -> None:
    """List the servers, or take one out and put it back."""
    if ctx.invoked_subcommand is not None:
        return
    with connect(url) as client:
        found = client.nodes()
    if as_json:
        output.print_json(found)
        return
    if topology:
        for line in picture_of(found["nodes"]):
            output.print_line(line)
        return
    print_rows(COLUMNS, [_row(node) for node in found["nodes"]])
    for node in found["nodes"]:
        if node.get("cause"):
            output.print_line(f"{node['name']}: {node['cause']}")
        # A daemon of an earlier version does not say it.
        for each in node.get("quarantined", ()):
            output.print_line(
                f"{node['name']}: GPU {each['gpu']} is quarantined"
                + (f": {each['cause']}" if each["cause"] else "")
            )
        if held := _held_by_others(node):
            output.print_line(f"{node['name']}: others hold {held}")


@commands.command()
def drain(node: Node, as_json: Json = False, url: Url = None) -> None:
    """Start nothing new on a server; what runs there may end."""
    with connect(url) as client:
        answer = client.drain(node)
    output.print_json(answer) if as_json else output.print_line(f"{node} takes no new jobs")


@commands.command()
def restore(node: Node, as_json: Json = False, url: Url = None) -> None:
    """Put a drained server back to work."""
    with connect(url) as client:
        answer = client.restore(node)
    output.print_json(answer) if as_json else output.print_line(f"{node} takes jobs again")


@commands.command()
def quarantine(gpu: Gpu, as_json: Json = False, url: Url = None) -> None:
    """Start nothing new on one GPU; what runs there may end.

    A GPU that its driver says is lost is quarantined by itself.
    """
    node, number = _gpu(gpu)
    with connect(url) as client:
        answer = client.quarantine_gpu(node, number)
    output.print_json(answer) if as_json else output.print_line(f"{gpu} takes no new jobs")


@commands.command()
def release(gpu: Gpu, as_json: Json = False, url: Url = None) -> None:
    """Put a quarantined GPU back to work."""
    node, number = _gpu(gpu)
    with connect(url) as client:
        answer = client.release_gpu(node, number)
    output.print_json(answer) if as_json else output.print_line(f"{gpu} takes jobs again")


def _gpu(words: str) -> tuple[str, int]:
    found = _GPU.fullmatch(words)
    if found is None:
        raise UsageError(
            f"{words}: expected a server and one of its GPUs, such as gpu01[2]; "
            "`shunter nodes drain` is for a whole server"
        )
    return found[1], int(found[2])


def _row(node: "Answer") -> tuple[str, ...]:
    gpus = node["gpus"]
    free = sum(gpu["state"] == "free" for gpu in gpus)
    return (
        node["name"],
        node["state"],
        _type(node),
        str(len(gpus)),
        str(free if node["state"] == "up" else 0),
        _part(node["cpus_free"], node["cpus"]),
        _part(node["memory_mb_free"], node["memory_mb"]),
        _named(node["jobs"]),
    )


def _type(node: "Answer") -> str:
    """Return the type of a server, and what counts as its GPUs if they are none."""
    # A daemon of an earlier version does not say the device.
    is_of_units = node.get("device") == "cpu"
    return f"{node['gpu_type']} (units)" if is_of_units else node["gpu_type"]


def _held_by_others(node: "Answer") -> str:
    """Return what others than the scheduler hold of a server, if anything."""
    gpus = sum(gpu["state"] == "taken" for gpu in node["gpus"])
    parts = [counted(gpus, "GPU")] if gpus else []
    # A daemon of an earlier version does not say it.
    parts += [counted(cpus, "CPU")] if (cpus := node.get("cpus_taken")) else []
    parts += [f"{memory} MB"] if (memory := node.get("memory_mb_taken")) else []
    return ", ".join(parts)


def _part(free: float, of: float) -> str:
    """Return how much is free of how much; nothing where a server's size is not said."""
    return f"{free:g}/{of:g}" if of else ""


def _named(jobs: "Sequence[str]") -> str:
    hidden = len(jobs) - JOBS_NAMED
    return " ".join(jobs[:JOBS_NAMED]) + (f" and {hidden} more" if hidden > 0 else "")
