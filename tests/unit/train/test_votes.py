from pathlib import Path

from shunter.train.agreement import (
    create_document,
    put_document,
    ranks_that,
    read_document,
    vote_path,
)


def test_answers_are_found_by_rank(tmp_path: Path) -> None:
    for rank in (0, 1):
        put_document(vote_path(tmp_path, "saved", 3, rank), {})
    put_document(vote_path(tmp_path, "saved", 4, 0), {})
    found = [ranks_that(tmp_path, "saved", request) for request in (3, 4, 5)]
    assert found == [{0, 1}, {0}, set()]


def test_only_the_first_creates(tmp_path: Path) -> None:
    path = tmp_path / "stop.1.json"
    assert create_document(path, {"tick": 4})
    assert not create_document(path, {"tick": 5})
    assert read_document(path) == {"tick": 4}
    assert [each.name for each in sorted(tmp_path.iterdir())] == [
        "stop.1.json"
    ]  # nothing left behind


def test_half_a_document_reads_as_none(tmp_path: Path) -> None:
    (tmp_path / "vote.1.0.json").write_text('{"request": 1')
    assert read_document(tmp_path / "vote.1.0.json") is None
    assert read_document(tmp_path / "absent.json") is None
