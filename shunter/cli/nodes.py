"""`shunter nodes`: the servers with who is on them, and taking them out and putting them back."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.cli import output
from shunter.cli.answers import Url, connect, print_rows
from shunter.cli.options import CommandGroup, Json
from shunter.counting import counted
from shunter.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter.client import Answer


Topology = Annotated[
    bool,
    typer.Option(
        "--topology",
        help="Draw domains, racks, servers, sockets, switches, NVLink, and who is on each GPU.",
    ),
]
ServerName = Annotated[str, typer.Argument(metavar="NODE", help="The server's name.")]
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


nodes_commands = typer.Typer(cls=CommandGroup, invoke_without_command=True, rich_markup_mode=None)


@nodes_commands.callback()
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
    print_rows(COLUMNS, [_node_row(node) for node in found["nodes"]])
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


@nodes_commands.command()
def drain(node: ServerName, as_json: Json = False, url: Url = None) -> None:
    """Start nothing new on a server; what runs there may end."""
    with connect(url) as client:
        answer = client.drain(node)
    output.print_json(answer) if as_json else output.print_line(f"{node} takes no new jobs")


@nodes_commands.command()
def restore(node: ServerName, as_json: Json = False, url: Url = None) -> None:
    """Put a drained server back to work."""
    with connect(url) as client:
        answer = client.restore(node)
    output.print_json(answer) if as_json else output.print_line(f"{node} takes jobs again")


@nodes_commands.command()
def quarantine(gpu: Gpu, as_json: Json = False, url: Url = None) -> None:
    """Start nothing new on one GPU; what runs there may end.

    A GPU that its driver says is lost is quarantined by itself.
    """
    node, number = _gpu(gpu)
    with connect(url) as client:
        answer = client.quarantine_gpu(node, number)
    output.print_json(answer) if as_json else output.print_line(f"{gpu} takes no new jobs")


@nodes_commands.command()
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


def _node_row(node: "Answer") -> tuple[str, ...]:
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


# The picture of `shunter nodes --topology`; GPUs joined by NVLink may lie across sockets:
#
#     domain ib0
#       rack r1
#         gpu01  v100, up, 2 of 8 GPUs free
#           socket  switch  0 j7     1 j7
#                   switch  2 .      3 .
#           nvlink  0 j7     2 .
#           CPUs    0-15 for GPUs 0-3, 16-31 for GPUs 4-7
#           map     by sysfs of the server

FREE = "."
SOURCES = {"": "", "config": "", "log": "by the server at an earlier start"}
"""Who told of a map, where it was not asked of the server at this start."""
PLACE_SOURCES = {"": "", "config": "", "log": "by Slurm at an earlier start"}
"""Who told of a rack, likewise."""
_INDENT = "  "

Node = Mapping[str, Any]
GpuNumbers = Sequence[int]


def picture_of(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield the lines of the picture.

    Args:
        nodes: servers, as the daemon lists them.
    """
    # A daemon of an earlier version says no domain, no levels and no links.
    for domain in dict.fromkeys(node.get("domain", "") for node in nodes):
        within = [node for node in nodes if node.get("domain", "") == domain]
        indent = ""
        if domain:
            yield f"domain {domain}"
            indent = _INDENT
        for rack in dict.fromkeys(node["rack"] for node in within):
            inner = indent
            if rack:
                yield f"{indent}rack {rack}"
                inner = indent + _INDENT
            for node in within:
                if node["rack"] == rack:
                    yield f"{inner}{_headline(node)}"
                    for line in _gpu_lines(node):
                        yield f"{inner}{_INDENT}{line}"


def _headline(node: Node) -> str:
    gpus = node["gpus"]
    if not gpus:
        return f"{node['name']}  {node['state']}, no GPUs"
    free = sum(gpu["state"] == "free" for gpu in gpus) if node["state"] == "up" else 0
    what = "unit" if node.get("device") == "cpu" else "GPU"
    of_all = f"{free} of {counted(len(gpus), what)} free"
    return f"{node['name']}  {node['gpu_type']}, {node['state']}, {of_all}"


def _gpu_lines(node: Node) -> Iterator[str]:
    """Yield a line for each switch of a server, then for what NVLink joins."""
    gpus = node["gpus"]
    if not gpus:
        return
    quarantined = {each["gpu"] for each in node.get("quarantined", ())}
    cells = [f"{gpu['index']} {_on(gpu, quarantined)}" for gpu in gpus]
    levels = {each["level"]: each["groups"] for each in node.get("levels", ())}
    every = [[gpu["index"] for gpu in gpus]]
    switches, sockets = levels.get("switch", ()), levels.get("socket", ())
    for socket in sockets or every:
        label = "socket  " if sockets else ""
        inside = [group for group in switches if set(group) <= set(socket)]
        for group in inside or [socket]:
            yield f"{label}{'switch  ' if inside else ''}{_gpu_cells(cells, group)}"
            label = " " * len(label)
    joined = [group for group in levels.get("nvlink", ()) if len(group) > 1]
    for group in joined:
        yield f"nvlink  {_gpu_cells(cells, group)}"
    if not joined and (links := node.get("links")):  # no level of its own in logs of before
        yield "joined  " + "  ".join("-".join(map(str, group)) for group in links)
    # A daemon of an earlier version says nothing of the rest.
    if sockets := node.get("sockets"):
        near = [f"{_ranges(each['cpus'])} for GPUs {_ranges(each['gpus'])}" for each in sockets]
        yield "CPUs    " + ", ".join(near)
    by = node.get("map_by", "")
    if found_by := SOURCES.get(by, f"by {by} of the server"):
        yield f"map     {found_by}"
    place_by = node.get("place_by", "")
    if found_by := PLACE_SOURCES.get(place_by, f"by {place_by}"):
        yield f"rack    {found_by}"
    for note in node.get("map_notes", ()):
        yield f"note    {note}"


def _gpu_cells(cells: Sequence[str], group: GpuNumbers) -> str:
    width = max(map(len, cells))
    return "  ".join(cells[gpu].ljust(width) for gpu in group).rstrip()


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers in ascending order as a list such as 0-3,8."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _on(gpu: Mapping[str, Any], quarantined: Collection[int]) -> str:
    """Return who is on a GPU, or what it does instead of being free."""
    if gpu["jobs"]:
        jobs = "+".join(gpu["jobs"])
        return f"{jobs} quarantined" if gpu["index"] in quarantined else jobs
    return FREE if gpu["state"] == "free" else str(gpu["state"])
