"""One tree of files from those of a gang's hosts, in lists that no memory holds."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pytest

from shunter.backends.live import (
    ENTRIES_OF_ALL_MAX,
    FileLists,
    ListedEntry,
    TooManyEntriesError,
    checkpoint_lists,
    listed_entry,
    path_of,
)
from shunter.backends.node.host import (
    ENTRIES_MAX,
    PATH_BYTES_MAX,
    Kind,
    file_trees,
    listings,
    pieces,
)
from shunter.errors import BackendError
from shunter.events import NodeName

N0, N1, N2 = NodeName("n0"), NodeName("n1"), NodeName("n2")


class Told(NamedTuple):
    """What a host lists, but for the folder itself."""

    entries: Sequence[ListedEntry]
    gone: Iterable[str]
    generation: int
    is_whole: bool


def entry(path: str, kind: Kind = "file", *, new: bool = True, at: int = 1) -> ListedEntry:
    return ListedEntry(path, kind, 0o600, at, 0, "", "", new)


def told(
    *entries: ListedEntry, gone: Iterable[str] = (), generation: int = 0, whole: bool = False
) -> Told:
    return Told(entries, gone, generation, whole)


def lines_of(entries: Iterable[ListedEntry]) -> Iterator[bytes]:
    """Yield the records in which a host tells these."""
    rows = ((path, list[object](fields)) for path, *fields in entries)
    return (json.dumps(record).encode() for record in listings(rows))


def take(lists: FileLists, node: NodeName, part: Told) -> None:
    """Have a host list something."""
    lists.begin(node)
    for line in lines_of([entry("", "folder", new=False), *part.entries]):
        assert not lists.take(line)
    for gone in pieces(part.gone):
        assert not lists.take(json.dumps({"gone": gone}).encode())
    end = {"generation": part.generation, "is_whole": part.is_whole}
    assert lists.take(json.dumps(end).encode())


def joined(*parts: Told) -> list[tuple[NodeName, ListedEntry]]:
    lists = FileLists()
    for node, part in zip((N0, N1, N2), parts, strict=False):
        take(lists, node, part)
    lists.join()
    fields = "host, path, kind, mode, mtime_ns, size, target, inode, changed"
    rows = f"SELECT {fields} FROM listed WHERE is_chosen ORDER BY path"  # noqa: S608  no input
    return [
        (lists.name_of(host), ListedEntry(path_of(key), *values))
        for host, key, *values in lists.database.execute(rows)
    ]


def origins(*parts: Told) -> dict[str, str]:
    """Return the host of each path, but for that of the folder itself."""
    return {entry.path: node for node, entry in joined(*parts) if entry.path}


def test_file_comes_from_where_it_was_changed() -> None:
    first = told(entry("0"), entry("1", new=False), generation=2)
    second = told(entry("0", new=False), entry("1"), generation=2)
    assert origins(first, second) == {"0": N0, "1": N1}


def test_file_that_several_have_changed_is_the_lowest_ranks() -> None:
    assert origins(told(entry("a")), told(entry("a"), entry("b"))) == {"a": N0, "b": N1}


def test_file_that_nobody_has_changed_is_that_of_the_latest_transfer() -> None:
    """One of the hosts got a checkpoint for an attempt that never ran, the other did not."""
    first = told(entry("1", new=False), generation=2)
    second = told(entry("1", new=False), generation=4)
    assert origins(first, second, first) == {"1": N1}


def test_file_that_one_has_removed_is_gone_unless_another_has_changed_it() -> None:
    first = told(gone=["0-old", "1"], generation=2)
    second = told(entry("0-old", new=False), entry("1"), generation=2)
    assert origins(first, second) == {"1": N1}


def test_host_that_got_all_for_an_attempt_that_never_ran_has_all() -> None:
    """The other's files are older: what it changed is in there already."""
    whole = told(entry("0", new=False), entry("1", new=False), generation=3, whole=True)
    assert origins(told(entry("0"), entry("1")), whole) == {"0": N1, "1": N1}


def test_folder_with_files_of_one_is_no_link_of_another() -> None:
    first = told(entry("d", "link"))
    second = told(entry("d", "folder"), entry("d/e", "folder"), entry("d/e/f"))
    assert [(each.path, each.kind) for _, each in joined(first, second)] == [
        ("", "folder"),
        ("d", "folder"),
        ("d/e", "folder"),
        ("d/e/f", "file"),
    ]


def test_folder_that_one_has_removed_stays_for_what_another_has_written_in_it() -> None:
    first = told(gone=["d", "d/0"], generation=2)
    second = told(
        entry("d", "folder", new=False), entry("d/0", new=False), entry("d/1"), generation=2
    )
    assert origins(first, second) == {"d": N1, "d/1": N1}


def test_parents_come_first_and_folders_have_their_latest_time() -> None:
    first = told(entry("a", "folder", at=5), entry("a/x"), entry("a-b"))
    second = told(entry("a", "folder", at=9), entry("a/y"))
    found = joined(first, second)
    assert [each.path for _, each in found] == ["", "a", "a/x", "a/y", "a-b"]
    assert found[1][1].mtime_ns == 9


def test_checkpoint_without_an_entry_is_none() -> None:
    lists = FileLists()
    take(lists, N0, told())
    assert not lists.join()


def test_file_without_its_folder_is_refused() -> None:
    parts = told(entry("d", "link")), told(entry("d/e"))
    with pytest.raises(BackendError, match="host n1 listed a file without its folder"):
        joined(*parts)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many entries a checkpoint may have here: a hundredth, so that a test makes few."""
    assert (ENTRIES_MAX, ENTRIES_OF_ALL_MAX) == (100_000, 400_000)
    few = ENTRIES_MAX // 100
    monkeypatch.setattr(file_trees, "ENTRIES_MAX", few)
    monkeypatch.setattr(checkpoint_lists, "ENTRIES_OF_ALL_MAX", 4 * few)
    return few


def test_gang_may_have_as_many_files_as_one_job_and_those_that_are_the_same_once(few: int) -> None:
    """Its hosts get one folder, so what differs between them is held to the bound of one."""
    lists, half = FileLists(), few // 2 + 1
    same = [entry(str(number)) for number in range(half)]
    for node in (N0, N1):
        take(lists, node, told(*same))
    others = [entry(f"other-{number}") for number in range(few - half)]
    take(lists, N2, told(*others))
    with pytest.raises(TooManyEntriesError, match="more than 1,000 files and folders, each"):
        lists.take(next(lines_of([entry("one more")])))


def test_servers_of_a_gang_may_not_list_the_same_files_without_end(few: int) -> None:
    lists = FileLists()
    same = list(lines_of(entry(str(number)) for number in range(few)))
    for number in range(4):
        lists.begin(NodeName(f"n{number}"))
        for line in same:
            lists.take(line)
    lists.begin(N0)
    with pytest.raises(TooManyEntriesError, match="more than 4,000 files and folders"):
        lists.take(same[0])


@pytest.mark.parametrize("count", [1, ENTRIES_MAX + 1])
def test_paths_that_are_gone_are_held_to_the_bound_of_a_checkpoint(count: int) -> None:
    lists = FileLists()
    lists.begin(N0)
    name = "a" * (PATH_BYTES_MAX // count + 1)
    line = json.dumps({"gone": [f"{name}{number}" for number in range(count)]}).encode()
    with pytest.raises(BackendError, match=r"host n0: (more than 100,000 files|paths and targets)"):
        lists.take(line)


@pytest.mark.parametrize(
    "record",
    [
        {"folder": "", "entries": [["a", "file"]]},
        {"folder": "", "entries": [["\u20ac", "file", 0, 0, 0, "", "", True]]},
        {"folder": "", "entries": [["a", "link", 0, 0, 0, "\ud800", "", True]]},
        {"folder": "", "entries": [["a", "file", 0, 0, 0, "", "\ud800", True]]},
        {"folder": "", "entries": [["a", "file", 0, 0, 0, "", "", True]] * 2},
        {"folder": "", "entries": 7},
        {"entries": []},
        {"folder": "", "entries": []},
        {"folder": "a" * 200_000, "entries": [["a", "file", 0, 0, 0, "", "", True]] * 100},
        {"gone": []},
        {"gone": [7]},
        {"gone": ["\u20ac"]},
        {"generation": 10**30, "is_whole": False},
        {"generation": [], "is_whole": False},
        {},
    ],
)
def test_record_that_is_none_fails_the_launch_alone(record: object) -> None:
    lists = FileLists()
    lists.begin(N0)
    with pytest.raises(BackendError, match="host n0"):
        lists.take(json.dumps(record).encode())


@pytest.mark.parametrize(
    ("paths", "is_large"), [(("a", "b"), False), (("a" * 60_000, "b" * 60_000), True)]
)
def test_lists_of_few_long_paths_are_large_as_well(paths: Sequence[str], *, is_large: bool) -> None:
    lists = FileLists()
    take(lists, N0, told(*map(entry, paths)))
    assert lists.is_large is is_large


@pytest.mark.parametrize(
    "fields",
    [
        ["fifo", 0o600, 0, 0, "", "", True],
        ["k" * 40_000, 0o600, 0, 0, "", "", True],
        ["file", 0o600, 0, 10**100, "", "", True],
        ["file", 0o600, -(10**100), 0, "", "", True],
        ["file", 0o600, 0, 0, "", "i" * 1000, True],
        ["file", -1000, 0, 0, "", "", True],
    ],
)
def test_entry_that_is_none_of_a_file_is_refused(fields: list[object]) -> None:
    with pytest.raises((TypeError, LookupError)):
        listed_entry("a", fields)
