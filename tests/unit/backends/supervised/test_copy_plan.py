"""Which files of a checkpoint a host is sent, and by whom."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pytest

from shunter.backends.live import CopyPlan, FileLists, ListedEntry
from shunter.backends.node.host import rows_of
from shunter.errors import BackendError
from tests.unit.backends.supervised.test_file_lists import N0, N1, N2, entry, lines_of, take, told


def lists_of(*parts: Sequence[ListedEntry]) -> FileLists:
    lists = FileLists()
    for node, entries in zip((N0, N1), parts, strict=False):
        take(lists, node, told(*entries))
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
