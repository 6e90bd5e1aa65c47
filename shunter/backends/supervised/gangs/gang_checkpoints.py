"""A gang's checkpoint, put together of what its ranks have left on their hosts.

Every host has a whole folder, in which only the files of its rank are new.
"""

from collections.abc import Mapping, Sequence

from shunter.backends.node.messages.wire import Entry, Manifest
from shunter.events.values.ids import NodeName

__all__ = ["Joined", "joined"]

Joined = Mapping[str, tuple[NodeName, Entry]]


def joined(told: Sequence[tuple[NodeName, Manifest]]) -> Joined:
    """Return one tree of files from those of a gang's hosts.

    A file comes from where it was changed since the last transfer, since there ran the rank that
    writes it, and is gone where one rank has removed it and none has changed it. Where several
    have changed it, the lowest rank's counts; where one of them has made a folder with files of its
    own and another a file or link, the folder.

    Args:
        told: the hosts in order of rank, and what `manifest` tells of each.
    Returns:
        The entries by path, parents first.
    """
    whole = [each for each in told if each[1]["is_whole"]]
    if whole:  # a transfer to another attempt got that far, and that attempt never ran
        told = [max(whole, key=lambda each: each[1]["generation"])]
    having: dict[str, list[tuple[NodeName, Entry, int]]] = {}
    gone: set[str] = set()
    for node, record in told:
        gone.update(record["gone"])
        for entry in record["entries"]:
            having.setdefault(entry["path"], []).append((node, entry, record["generation"]))
    chosen: dict[str, tuple[NodeName, Entry]] = {}
    for path, found in having.items():
        changed = [each for each in found if each[1]["changed"]]
        if changed or path not in gone:
            # What nobody has changed is right where the latest transfer came.
            node, entry, _ = changed[0] if changed else max(found, key=lambda each: each[2])
            chosen[path] = node, entry
    _keep_parents(chosen, having)
    for path, (node, entry) in chosen.items():
        if entry["kind"] == "folder":  # it changes with each entry that comes or goes
            times = [one["mtime_ns"] for _, one, _ in having[path] if one["kind"] == "folder"]
            chosen[path] = node, {**entry, "mtime_ns": max(times)}
    return dict(sorted(chosen.items(), key=lambda each: each[0].split("/") if each[0] else []))


def _keep_parents(
    chosen: dict[str, tuple[NodeName, Entry]],
    having: Mapping[str, list[tuple[NodeName, Entry, int]]],
) -> None:
    """Have a folder above each entry, from the host of that entry."""
    for path, (node, _) in list(chosen.items()):
        parent = path
        while parent:
            parent = parent.rpartition("/")[0]
            if parent not in chosen or chosen[parent][1]["kind"] != "folder":
                entry = next(one for at, one, _ in having[parent] if at == node)
                chosen[parent] = node, entry
