"""One tree of files from those of a gang's hosts."""

from collections.abc import Iterable

import pytest

from shunter.backends.node.messages.wire import Kind
from shunter.backends.node.remote.entry_lists import ENTRIES_MAX
from shunter.backends.supervised.checkpoints.gang_checkpoints import (
    BYTES_OF_ENTRY,
    ENTRIES_OF_ALL_MAX,
    HeavierError,
    ListedEntry,
    Manifest,
    Manifests,
    TooManyEntriesError,
    Weight,
    joined,
    listed_entry,
)
from shunter.events.values.ids import NodeName

N0, N1 = NodeName("n0"), NodeName("n1")


def entry(path: str, kind: Kind = "file", *, new: bool = True, at: int = 1) -> ListedEntry:
    return ListedEntry(path, kind, 0o600, at, 0, "", "", new)


def told(
    *entries: ListedEntry, gone: Iterable[str] = (), generation: int = 0, whole: bool = False
) -> Manifest:
    top = entry("", "folder", new=False)
    return Manifest([top, *entries], list(gone), generation, whole)


def origins(*parts: Manifest) -> dict[str, str]:
    """Return the host of each path, but for that of the folder itself."""
    names = (N0, N1)
    return {
        path: node
        for path, (node, _) in joined(list(zip(names, parts, strict=False))).items()
        if path
    }


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
    assert origins(first, second) == {"1": N1}


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
    found = joined([(N0, first), (N1, second)])
    assert [(path, each.kind) for path, (_, each) in found.items()] == [
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
    first = told(entry("a-b"), entry("a", "folder", at=5), entry("a/x"))
    second = told(entry("a", "folder", at=9), entry("a/y"))
    found = joined([(N0, first), (N1, second)])
    assert list(found) == ["", "a", "a/x", "a/y", "a-b"]
    assert found["a"][1].mtime_ns == 9


def test_gang_may_have_as_many_files_as_one_job_and_those_that_are_the_same_once() -> None:
    """Its hosts get one folder, so what differs between them is held to the bound of one."""
    found, half = Manifests(ENTRIES_OF_ALL_MAX), ENTRIES_MAX // 2 + 1
    for node in (N0, N1):
        manifest = found.begin(node)
        found.add(manifest, entry("", "folder"))
        for number in range(half):
            found.add(manifest, entry(str(number)))
    manifest = found.begin(NodeName("n2"))
    for number in range(ENTRIES_MAX - half):
        found.add(manifest, entry(f"other-{number}"))
    with pytest.raises(TooManyEntriesError, match="more than 100,000 files and folders, each"):
        found.add(manifest, entry("one more"))


def test_lists_are_weighed_by_their_entries_and_by_the_bytes_of_their_paths() -> None:
    weight = Weight()
    for number in range(10):
        weight.add(entry(str(number)))
    assert weight.total == 10
    weight.add_gone(["a" * BYTES_OF_ENTRY * 50])
    assert weight.total == 50
    with pytest.raises(TypeError):
        weight.add_gone([7])


@pytest.mark.parametrize("path", ["short", "long" * BYTES_OF_ENTRY])
def test_no_more_is_held_of_lists_than_was_set_aside_for_them(path: str) -> None:
    names = [f"{path}{number}" for number in range(101)]
    found = Manifests(100)
    manifest = found.begin(N0)

    def list_all() -> None:
        for name in names:
            found.add(manifest, entry(name))

    with pytest.raises(HeavierError):
        list_all()
    assert len(manifest.entries) <= 100
    found = Manifests(100)
    with pytest.raises(HeavierError):
        found.add_gone(manifest, names)
    assert manifest.gone == []


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
