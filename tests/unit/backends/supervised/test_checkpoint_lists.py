"""Files of a checkpoint, as hosts list them: one tree of them, and which ones a host is sent."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pytest

from shunter.backends.live import (
    ENTRIES_OF_ALL_MAX,
    CopyPlan,
    FileLists,
    ListedEntry,
    StaysError,
    TooManyEntriesError,
    checkpoint_lists,
    listed_entry,
    path_of,
    read_answer,
)
from shunter.backends.node.host import (
    ENTRIES_MAX,
    PATH_BYTES_MAX,
    Kind,
    file_trees,
    listings,
    pieces,
    rows_of,
)
from shunter.errors import BackendError
from shunter.events import JobId, LaunchFailed, NodeName, encode_payload

N0, N1, N2 = NodeName("n0"), NodeName("n1"), NodeName("n2")


class Told(NamedTuple):
    """What a host lists, but for the folder itself."""

    entries: Sequence[ListedEntry]
    gone: Iterable[str]
    generation: int
    is_whole: bool


def entry(path: str, kind: Kind = "file", *, new: bool = True, at: int = 1) -> ListedEntry:
    return ListedEntry(path, kind, 0o600, at, 0, "", "", new)


def told(text: str = "", *more: ListedEntry) -> Told:
    """Return what a host lists: new files, (old) ones, folders/, links>, -gone, @generation."""
    entries, gone, generation = [*more], list[str](), 0
    for word in text.removesuffix(" whole").split():
        kind = KINDS.get(word.strip("()")[-1:], "file")
        if word.startswith("-"):
            gone.append(word[1:])
        elif word.startswith("@"):
            generation = int(word[1:])
        else:
            entries.append(entry(word.strip("()").rstrip("/>"), kind, new=word[0] != "("))
    return Told(entries, gone, generation, text.endswith(" whole"))


KINDS: dict[str, Kind] = {"/": "folder", ">": "link"}


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


@pytest.mark.parametrize(
    ("parts", "chosen"),
    [
        (("0 (1) @2", "(0) 1 @2"), "0 n0, 1 n1"),
        (("a", "a b"), "a n0, b n1"),
        (("(1) @2", "(1) @4", "(1) @2"), "1 n1"),
        (("-0-old -1 @2", "(0-old) 1 @2"), "1 n1"),
        (("0 1", "(0) (1) @3 whole"), "0 n1, 1 n1"),
        (("d>", "d/ d/e/ d/e/f"), "d/ n1, d/e/ n1, d/e/f n1"),
        (("-d -d/0 @2", "(d/) (d/0) d/1 @2"), "d/ n1, d/1 n1"),
    ],
    ids=[
        "from where it was changed",
        "that of the lowest rank, if several have changed it",
        "that of the latest transfer, if nobody has: for an attempt that never ran",
        "gone if one has removed it, unless another has changed it",
        "that of who got all for an attempt that never ran: what was changed is in there",
        "a folder with files of one is no link of another",
        "a folder that one has removed stays for what another has written in it",
    ],
)
def test_file_is_that_of_the_host_that_the_row_says(parts: Sequence[str], chosen: str) -> None:
    marks = {"folder": "/", "link": ">", "file": ""}
    found = [(each, node) for node, each in joined(*map(told, parts)) if each.path]
    assert ", ".join(f"{each.path}{marks[each.kind]} {node}" for each, node in found) == chosen


def test_parents_come_first_and_folders_have_their_latest_time() -> None:
    first, second = (entry("a", "folder", at=at) for at in (5, 9))
    found = joined(told("a/x a-b", first), told("a/y", second))
    assert [each.path for _, each in found] == ["", "a", "a/x", "a/y", "a-b"]
    assert found[1][1].mtime_ns == 9


def test_checkpoint_without_an_entry_is_none() -> None:
    lists = FileLists()
    take(lists, N0, told())
    assert not lists.join()


def test_file_without_its_folder_is_refused() -> None:
    with pytest.raises(BackendError, match="host n1 listed a file without its folder"):
        joined(told("d>"), told("d/e"))


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
        take(lists, node, told("", *same))
    others = [entry(f"other-{number}") for number in range(few - half)]
    take(lists, N2, told("", *others))
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
    take(lists, N0, told("", *map(entry, paths)))
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


def lists_of(*parts: Sequence[ListedEntry]) -> FileLists:
    lists = FileLists()
    for node, entries in zip((N0, N1), parts, strict=False):
        take(lists, node, told("", *entries))
    lists.join()
    return lists


def linked(path: str, inode: str = "1:1") -> ListedEntry:
    return entry(path)._replace(inode=inode)


def rows(plan: CopyPlan) -> Iterator[tuple[str, str, int | None]]:
    """Yield of each entry its path, where the file comes from, and what it is the same as."""
    for record in plan.records(7):
        if "entries" in record:
            for path, fields in rows_of(record):
                *_, origin, same = fields
                yield path, str(origin), same if isinstance(same, int) else None


def paths(records: Iterator[Any]) -> list[str]:
    return list(chain.from_iterable(record["paths"] for record in records))


def digests(*found: str | None) -> bytes:
    return json.dumps({"digests": found}).encode()


def compare(plan: CopyPlan, *entries: ListedEntry) -> None:
    for line in lines_of(entries):
        assert not plan.compare(line)
    assert plan.compare(b'{"generation": 0, "is_whole": false}')


def test_host_gets_all_files_and_each_from_where_it_is_newest() -> None:
    first = [entry("a"), entry("both", at=1), entry("d", "folder")]
    second = [entry("both", at=2), entry("c")]
    plan = CopyPlan(lists_of(first, second), N2)
    assert plan.senders() == [N0, N1]
    assert paths(plan.sent_paths(N0)) == ["a", "both"]
    assert paths(plan.sent_paths(N1)) == ["c"]
    last = [record for record in plan.records(7) if "entries" not in record]
    assert last == [{"received": ["a", "both"]}, {"received": ["c"]}, {"generation": 7}]


def test_host_keeps_its_own_files() -> None:
    plan = CopyPlan(lists_of([entry("a")], [entry("b")]), N1)
    assert list(rows(plan)) == [("", "", None), ("a", "stream", None), ("b", "here", None)]
    assert plan.senders() == [N0]


def test_file_of_several_names_is_sent_once_and_named_by_its_number() -> None:
    plan = CopyPlan(lists_of([entry("0"), linked("a"), linked("b"), linked("c", "1:2")]), N1)
    assert list(rows(plan)) == [
        ("", "", None),
        ("0", "stream", None),
        ("a", "stream", None),
        ("b", "", 2),
        ("c", "stream", None),
    ]
    assert paths(plan.sent_paths(N0)) == ["0", "a", "c"]


def test_files_of_several_hosts_with_one_inode_number_are_no_same_file() -> None:
    plan = CopyPlan(lists_of([linked("a")], [linked("b")]), N2)
    assert [row[1:] for row in rows(plan)] == [("", None), ("stream", None), ("stream", None)]


def test_file_is_kept_where_its_digest_is_that_of_the_source() -> None:
    """Of four that look alike one has other bytes, and one cannot be read on either host."""
    names = ["a", "b", "c", "d/e"]
    listed = [*map(entry, names[:3]), entry("d", "folder"), entry("d/e"), entry("other", at=5)]
    plan = CopyPlan(lists_of(listed), N1)
    compare(plan, *map(entry, ["a", "b", "c", "d/e", "gone"]), entry("other", at=6))
    assert plan.alike() == [N0]
    assert paths(plan.alike_paths(N0)) == names
    for line in (digests("1", "2"), digests(None, "4")):  # in two records
        assert not plan.take_digests(N0, line, is_target=False)
    for line in (digests("1"), digests("0", None, "4")):
        assert not plan.take_digests(N0, line, is_target=True)
    assert plan.take_digests(N0, b'{"end": true}', is_target=True)
    assert paths(plan.sent_paths(N0)) == ["b", "c", "other"]
    assert {path for path, origin, _ in rows(plan) if origin == "here"} == {"a", "d/e"}


def test_plan_of_the_next_host_knows_nothing_of_the_last_ones() -> None:
    lists = lists_of([entry("a")])
    plan = CopyPlan(lists, N1)
    compare(plan, entry("a"))
    for is_target in (False, True):
        plan.take_digests(N0, digests("1"), is_target=is_target)
    assert plan.senders() == []
    assert CopyPlan(lists, N2).senders() == [N0]


@pytest.mark.parametrize(
    "line",
    [
        digests("1", "2"),
        digests(),
        b'{"digests": 7}',
        b'{"digests": [7]}',
        b'{"digests": ["\\ud800"]}',
    ],
)
def test_answer_that_is_no_digests_of_these_files_is_refused(line: bytes) -> None:
    plan = CopyPlan(lists_of([entry("a")]), N1)
    compare(plan, entry("a"))
    with pytest.raises(BackendError, match="host n1 said"):
        plan.take_digests(N0, line, is_target=True)


@pytest.mark.parametrize(
    "line", [b"", b"no JSON", b"[" * 5000, b"[]", b"7", b"null", b'{"error": "x"', b'"\\ud800"']
)
def test_answer_that_is_no_object_is_said_to_be_none(line: bytes) -> None:
    with pytest.raises(BackendError, match="host n0 said what is no answer"):
        read_answer("n0", line)


def test_cause_with_names_of_files_can_be_recorded_and_is_not_endless() -> None:
    """Names of any bytes come as half characters, which no event can hold."""
    line = b'{"error": "it is not there: \\udcff\\udcfe' + b"x" * 100_000 + b'"}'
    with pytest.raises(BackendError) as raised:
        read_answer("n0", line)
    cause = str(raised.value)
    assert cause.startswith("host n0: it is not there: \\udcff\\udcfe")
    assert len(cause) < 1100
    encode_payload([LaunchFailed(0, JobId("j0"), 1, cause)])


def test_refusal_by_size_is_known_by_its_field_and_not_by_its_words() -> None:
    with pytest.raises(StaysError, match="host n0: too much"):
        read_answer("n0", b'{"error": "too much", "is_too_large": true}')
    for line in (b'{"error": "it stays where it is"}', b'{"error": "x", "is_too_large": "true"}'):
        with pytest.raises(BackendError) as raised:
            read_answer("n0", line)
        assert not isinstance(raised.value, StaysError)
