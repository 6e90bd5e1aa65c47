"""A gang's checkpoint, put together of what its ranks have left on their hosts.

Every host has a whole folder, in which only the files of its rank are new.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shunter.backends.node.messages.wire import Kind
from shunter.backends.node.remote.entry_lists import (
    ENTRIES_MAX,
    PATH_BYTES_MAX,
    ListBound,
    TooMuchError,
    rows_of,
)
from shunter.backends.node.remote.file_trees import MODE_BITS
from shunter.backends.supervised.checkpoints.verbs import failed, read_answer
from shunter.events.values.ids import NodeName

__all__ = [
    "HeavierError",
    "Joined",
    "ListedEntry",
    "Manifest",
    "Manifests",
    "TooManyEntriesError",
    "Weight",
    "joined",
    "listed_entry",
    "take_listed",
]


class ListedEntry(NamedTuple):
    """A file, link or folder of a checkpoint, as a node lists it.

    Its fields are those of `remote.file_trees`.

    `changed` says that it is another one than when the last transfer came.
    """

    path: str
    kind: Kind
    mode: int
    mtime_ns: int
    size: int
    to: str
    inode: str
    changed: bool


def listed_entry(path: str, fields: Sequence[object]) -> ListedEntry:
    """Return an entry as a node tells it.

    Raises:
        TypeError: these are not the fields of one.
        LookupError: its kind or mode is none of a file.
    """
    entry = ListedEntry(path, *fields)  # type: ignore[arg-type]  # checked below
    if [type(each) for each in entry] != _TYPES or not (
        0 <= entry.size <= NUMBER_MOST
        and abs(entry.mtime_ns) <= NUMBER_MOST
        and len(entry.inode) <= INODE_MOST
    ):
        raise TypeError("these are no fields of a file")
    return entry._replace(kind=_KINDS[entry.kind], mode=_MODES[entry.mode])


_KINDS: dict[str, Kind] = {"file": "file", "link": "link", "folder": "folder"}
_MODES = tuple(range(MODE_BITS + 1))
"""Of each kind and mode one object: JSON makes one for each entry."""
NUMBER_MOST, INODE_MOST = 2**63 - 1, 64
_TYPES = [str, str, int, int, int, str, str, bool]
Joined = Mapping[str, tuple[NodeName, ListedEntry]]
ENTRIES_OF_ALL_MAX = 4 * ENTRIES_MAX
"""What the servers of a gang may list in all; what differs between them is held to ListBound."""
BYTES_OF_ENTRY = PATH_BYTES_MAX // ENTRIES_MAX
"""Of an entry with a path of so many bytes the path takes as much memory as the rest."""


@dataclass(slots=True)
class Manifest:
    """What one host lists: entries, and paths gone since transfer `generation`."""

    entries: list[ListedEntry] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    generation: int = 0
    is_whole: bool = False


class TooManyEntriesError(ValueError):
    """The hosts of a gang list more entries together than are put together."""


class HeavierError(ValueError):
    """Lists take more memory than whoever reads them has set aside for that."""


class Weight:
    """What lists take of memory, in entries whose paths are of usual length.

    Args:
        most: how much may be added.
    """

    def __init__(self, most: int = NUMBER_MOST) -> None:
        self._most, self._entries, self._bytes = most, 0, 0

    @property
    def total(self) -> int:
        """How much was added."""
        return max(self._entries, self._bytes // BYTES_OF_ENTRY)

    def add(self, entry: ListedEntry) -> None:
        """Count an entry.

        Raises:
            HeavierError: that is more than may be added.
        """
        self.add_text(entry.path, entry.to)

    def add_gone(self, paths: Sequence[object]) -> None:
        """Count paths that are gone.

        Raises:
            HeavierError: as `add`.
            TypeError: they are none.
        """
        for path in paths:
            if not isinstance(path, str):
                raise TypeError("a path is no text")
            self.add_text(path)

    def add_text(self, *texts: str) -> None:
        """Count an entry that has these texts, or raise HeavierError."""
        self._entries += 1
        self._bytes += sum(map(len, texts))
        if self.total > self._most:
            raise HeavierError


class Manifests:
    """The lists of all hosts of an attempt as they come in, bounded in all.

    Most of a gang's files are the same on all of its hosts, and are kept once.

    Args:
        weight_most: how much memory they may take, see `Weight`.
    """

    def __init__(self, weight_most: int) -> None:
        self.of_nodes: list[tuple[NodeName, Manifest]] = []
        self._known: dict[ListedEntry, ListedEntry] = {}
        self._bound = ListBound()
        self._weight = Weight(weight_most)
        self._left = ENTRIES_OF_ALL_MAX

    def begin(self, node: NodeName) -> Manifest:
        """Return the list of one more host, which is empty yet."""
        self.of_nodes.append((node, Manifest()))
        return self.of_nodes[-1][1]

    def add(self, manifest: Manifest, entry: ListedEntry) -> None:
        """Add an entry that a host lists.

        Raises:
            HeavierError: it is more than may be held.
            TooManyEntriesError: it is one more than the servers of a gang may have.
            ValueError: it is none.
        """
        self._left -= 1 if entry.path else 0
        if self._left < 0:
            raise TooManyEntriesError(f"more than {ENTRIES_OF_ALL_MAX:,} files and folders")
        self._weight.add(entry)
        kept = self._known.setdefault(entry, entry)
        if kept is entry:
            try:
                self._bound.add(entry.path, entry.to)
            except TooMuchError as error:
                raise TooManyEntriesError(
                    f"{error}, each counted once if it is the same"
                ) from error
        manifest.entries.append(kept)

    def add_gone(self, manifest: Manifest, paths: Sequence[str]) -> None:
        """Add paths of which a host says that they are gone.

        Raises:
            HeavierError: as `add`.
            TypeError: they are none.
        """
        self._weight.add_gone(paths)
        manifest.gone += paths


def take_listed(
    node: NodeName,
    line: bytes,
    manifest: Manifest,
    add: Callable[[ListedEntry], None],
    add_gone: Callable[[list[str]], None],
) -> bool:
    """Take in a record of what a host lists; return whether it was the last.

    Raises:
        HeavierError, TooManyEntriesError: as `add`.
        BackendError: it is no such record, or there are more than a checkpoint may have.
    """
    record = read_answer(node, line)
    try:
        if "entries" in record:
            for path, fields in rows_of(record):
                add(listed_entry(path, fields))
        elif "gone" in record:
            add_gone(record["gone"])
        else:
            manifest.generation, manifest.is_whole = record["generation"], record["is_whole"]
            return True
    except (HeavierError, TooManyEntriesError):
        raise
    except (LookupError, TypeError) as error:
        raise failed(f"host {node} said what is no list of files") from error
    except ValueError as error:
        raise failed(f"host {node}: {error}") from error
    return False


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
    whole = [each for each in told if each[1].is_whole]
    if whole:  # a transfer to another attempt got that far, and that attempt never ran
        told = [max(whole, key=lambda each: each[1].generation)]
    if len(told) == 1:
        ((node, only),) = told
        return {entry.path: (node, entry) for entry in only.entries}
    # One entry a path at a time: of all hosts together they would take a multiple of the memory.
    chosen: dict[str, tuple[NodeName, ListedEntry]] = {}
    generations = {node: record.generation for node, record in told}
    times: dict[str, int] = {}
    gone: set[str] = set()
    for node, record in told:
        gone.update(record.gone)
        for entry in record.entries:
            if entry.kind == "folder":  # its time changes with each entry that comes or goes
                times[entry.path] = max(entry.mtime_ns, times.get(entry.path, entry.mtime_ns))
            first = chosen.get(entry.path)
            # What nobody has changed is right where the latest transfer came.
            if first is None or (
                not first[1].changed
                and (entry.changed or generations[node] > generations[first[0]])
            ):
                chosen[entry.path] = node, entry
    for path in gone:
        if path in chosen and not chosen[path][1].changed:
            del chosen[path]
    _keep_parents(chosen, dict(told))
    for path, (node, entry) in chosen.items():
        if entry.kind == "folder" and entry.mtime_ns != times[path]:
            chosen[path] = node, entry._replace(mtime_ns=times[path])
    return {path: chosen[path] for path in sorted(chosen, key=_in_order_of_names)}


def _in_order_of_names(path: str) -> str:
    """Return what sorts paths by their names, parents first: no name has a NUL."""
    return path.replace("/", "\0")


def _keep_parents(
    chosen: dict[str, tuple[NodeName, ListedEntry]], told: Mapping[NodeName, Manifest]
) -> None:
    """Have a folder above each entry, from the host of that entry."""
    folders: dict[NodeName, dict[str, ListedEntry]] = {}
    for path in list(chosen):
        node, parent = chosen[path][0], path
        while parent:
            parent = parent.rpartition("/")[0]
            if parent not in chosen or chosen[parent][1].kind != "folder":
                if node not in folders:
                    entries = told[node].entries
                    folders[node] = {each.path: each for each in entries if each.kind == "folder"}
                chosen[parent] = node, folders[node][parent]
