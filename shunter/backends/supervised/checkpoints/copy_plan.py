"""How a host gets the files of a checkpoint: which are sent, by whom, and what is told of all."""

from collections.abc import Iterator, Mapping, Sequence

from shunter.backends.node.remote.entry_lists import listings, pieces
from shunter.backends.supervised.checkpoints.file_lists import FileLists, key_of, path_of, record_of
from shunter.backends.supervised.checkpoints.verbs import failed, read_answer
from shunter.events.values.ids import NodeName

DIGEST_MOST = 64
_JOINED = (
    "FROM listed LEFT JOIN several_names AS names USING (host, inode)"
    " LEFT JOIN alike USING (host, path) WHERE listed.is_chosen"
)
_IS_FIRST = "coalesce(names.path, listed.path) = listed.path"
_IS_SENT = f"listed.kind = 'file' AND listed.host != ? AND alike.is_same IS NOT 1 AND {_IS_FIRST}"
_ROWS = f"""
SELECT listed.path, listed.kind, listed.mode, listed.mtime_ns, listed.size, listed.target,
    listed.inode,
    CASE WHEN {_IS_SENT} THEN 'stream' WHEN listed.kind = 'file' AND {_IS_FIRST} THEN 'here'
    ELSE '' END,
    iif({_IS_FIRST}, NULL, names.number)
{_JOINED} ORDER BY listed.path
"""
_SENT_BY = f"SELECT listed.path {_JOINED} AND {_IS_SENT} AND listed.host = ? ORDER BY listed.path"
_LOOKS_SAME = """
INSERT OR IGNORE INTO alike SELECT host, path, NULL, NULL FROM listed
WHERE path = ? AND is_chosen AND (kind, mode, mtime_ns, size) = (?, ?, ?, ?) AND host != ?
"""
_NEXT = "SELECT path FROM alike WHERE host = ? AND path > ? ORDER BY path LIMIT ?"
_DIGESTS = {
    False: "UPDATE alike SET digest = ? WHERE host = ? AND path = ?",
    True: "UPDATE alike SET is_same = (digest = ?) WHERE host = ? AND path = ?",
}


class CopyPlan:
    """What one host is to get of joined lists.

    Args:
        lists: those, joined.
        target: the host.
    """

    def __init__(self, lists: FileLists, target: NodeName) -> None:
        self._lists, self._run = lists, lists.database.execute
        self._target, self._number = target, lists.number_of(target)
        self._run("DELETE FROM alike")
        self._last: dict[tuple[NodeName, bool], bytes] = {}

    def compare(self, line: bytes) -> bool:
        """Note which files the target seems to have; return whether that was all.

        Args:
            line: a record of what it lists.
        Raises:
            BackendError: it is none.
        """
        record = record_of(self._target, line)
        try:
            values = [
                (key_of(entry.path), *entry[1:5], self._number)
                for entry in record.entries
                if entry.kind == "file"
            ]
        except ValueError as error:
            raise failed(f"host {self._target} said what is no list of files") from error
        self._lists.database.executemany(_LOOKS_SAME, values)
        return record.is_last

    def alike(self) -> Sequence[NodeName]:
        """Return whose files the target seems to have."""
        found = self._run("SELECT DISTINCT host FROM alike ORDER BY host").fetchall()
        return [self._lists.name_of(host) for (host,) in found]

    def alike_paths(self, node: NodeName) -> Iterator[Mapping[str, object]]:
        """Yield records of the files of a host that the target seems to have."""
        rows = "SELECT path FROM alike WHERE host = ? ORDER BY path"
        return self._paths(rows, self._lists.number_of(node))

    def take_digests(self, node: NodeName, line: bytes, *, is_target: bool) -> bool:
        """Take in digests of the files of `alike_paths`; return whether those were all.

        Args:
            node: whose files those are.
            line: a record of digests in that order, None of what cannot be read.
            is_target: whether they are those of the target, which come last.
        Raises:
            BackendError: it is no such record.
        """
        said = self._target if is_target else node
        answer = read_answer(said, line)
        if "digests" not in answer:
            return True
        digests, host = answer["digests"], self._lists.number_of(node)
        after = self._last.get((node, is_target), b"")
        if not (isinstance(digests, list) and digests) or not all(
            each is None or (isinstance(each, str) and len(each) <= DIGEST_MOST and each.isascii())
            for each in digests
        ):
            raise failed(f"host {said} said what are no digests")
        paths = self._run(_NEXT, (host, after, len(digests))).fetchall()
        if len(paths) != len(digests):
            raise failed(f"host {said} said more digests than it was asked for")
        values = [(digest, host, path) for (path,), digest in zip(paths, digests, strict=True)]
        self._lists.database.executemany(_DIGESTS[is_target], values)
        if paths:
            self._last[node, is_target] = paths[-1][0]
        return False

    def senders(self) -> Sequence[NodeName]:
        """Return who sends files, in the order in which they come."""
        rows = f"SELECT DISTINCT listed.host {_JOINED} AND {_IS_SENT} ORDER BY listed.host"
        return [self._lists.name_of(host) for (host,) in self._run(rows, (self._number,))]

    def sent_paths(self, node: NodeName) -> Iterator[Mapping[str, object]]:
        """Yield records of the files that a host sends, in the order in which they come."""
        return self._paths(_SENT_BY, self._number, self._lists.number_of(node))

    def _paths(self, rows: str, *values: int) -> Iterator[Mapping[str, object]]:
        for part in pieces(path_of(key) for (key,) in self._run(rows, values)):
            yield {"paths": part}

    def records(self, generation: int) -> Iterator[Mapping[str, object]]:
        """Yield what the target is told: all entries, and in which order files come."""
        rows = self._run(_ROWS, (self._number,))
        yield from listings((path_of(key), fields) for key, *fields in rows)
        for node in self.senders():
            for record in self.sent_paths(node):
                yield {"received": record["paths"]}
        yield {"generation": generation}
