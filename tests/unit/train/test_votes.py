from pathlib import Path

from shunter.train import votes


def test_answers_are_found_by_rank(tmp_path: Path) -> None:
    for rank in (0, 1):
        votes.put(votes.path_of(tmp_path, "saved", 3, rank), {})
    votes.put(votes.path_of(tmp_path, "saved", 4, 0), {})
    found = [votes.ranks_that(tmp_path, "saved", request) for request in (3, 4, 5)]
    assert found == [{0, 1}, {0}, set()]


def test_only_the_first_creates(tmp_path: Path) -> None:
    path = tmp_path / "stop.1.json"
    assert votes.create(path, {"tick": 4})
    assert not votes.create(path, {"tick": 5})
    assert votes.get(path) == {"tick": 4}
    assert [each.name for each in sorted(tmp_path.iterdir())] == [
        "stop.1.json"
    ]  # nothing left behind


def test_half_a_document_reads_as_none(tmp_path: Path) -> None:
    (tmp_path / "vote.1.0.json").write_text('{"request": 1')
    assert votes.get(tmp_path / "vote.1.0.json") is None
    assert votes.get(tmp_path / "absent.json") is None
