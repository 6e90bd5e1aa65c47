"""The picture of `shunter nodes --topology`: domains, racks, servers, sockets, switches, NVLink.

    domain ib0
      rack r1
        gpu01  v100, up, 2 of 8 GPUs free
          socket  switch  0 j7     1 j7
                  switch  2 .      3 .
          socket  switch  4 j9     5 j9  6 j9  7 j9
          nvlink  0 j7     2 .
          nvlink  1 j7     3 .
          CPUs    0-15 for GPUs 0-3, 16-31 for GPUs 4-7
          map     by sysfs of the server
          rack    by Slurm

Each GPU has its number and who is on it; `.` is free, and `j7 quarantined` is one that takes no job
after j7. What a server does not describe is left out.
GPUs joined by NVLink have a line of their own, for they may lie across sockets.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from shunter.counting import counted

__all__ = ["picture_of"]

FREE = "."
SOURCES = {"": "", "config": "", "log": "by the server at an earlier start"}
"""Who told of a map, where it was not asked of the server at this start."""
PLACE_SOURCES = {"": "", "config": "", "log": "by Slurm at an earlier start"}
"""Who told of a rack, likewise."""
_INDENT = "  "

Node = Mapping[str, Any]
Group = Sequence[int]


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
            yield f"{label}{'switch  ' if inside else ''}{_row(cells, group)}"
            label = " " * len(label)
    joined = [group for group in levels.get("nvlink", ()) if len(group) > 1]
    for group in joined:
        yield f"nvlink  {_row(cells, group)}"
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


def _row(cells: Sequence[str], group: Group) -> str:
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
