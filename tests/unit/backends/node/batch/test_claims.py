"""The claim of an attempt: whoever takes it first has it, whoever else tries at the same time."""

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from shunter.backends.node import (
    BEGUN,
    WITHDRAWN,
    add_command,
    claimed_by,
    commands_after,
    take_claim,
    withdraw,
)

RIVALS = 12
ROUNDS = 8


def _rival(folders: list[str], gate: object, number: int) -> list[bool]:
    gate.wait()  # type: ignore[attr-defined]  # a barrier of the context
    is_batch = number % 2 == 0
    return [
        take_claim(folder, BEGUN, slurm_job=str(number)) if is_batch else withdraw(folder)
        for folder in folders
    ]


def _run(folders: list[str], gate: object, number: int, out: str) -> None:
    Path(out).write_text(" ".join(str(int(each)) for each in _rival(folders, gate, number)))


def test_of_many_that_try_at_once_one_side_has_each_attempt(tmp_path: Path) -> None:
    folders = [str(tmp_path / f"a{number}") for number in range(ROUNDS)]
    for folder in folders:
        os.mkdir(folder)  # noqa: PTH102  texts, as in the claims
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(RIVALS)
    outs = [str(tmp_path / f"out.{number}") for number in range(RIVALS)]
    runs = [
        context.Process(target=_run, args=(folders, gate, number, outs[number]))
        for number in range(RIVALS)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
        assert run.exitcode == 0
    won = [[bool(int(word)) for word in Path(out).read_text().split()] for out in outs]
    for index, folder in enumerate(folders):
        batches = [won[number][index] for number in range(0, RIVALS, 2)]
        schedulers = [won[number][index] for number in range(1, RIVALS, 2)]
        assert sum(batches) <= 1
        # Who withdraws what was withdrawn is told that it never begins: all or none are.
        assert set(schedulers) == {not any(batches)}
        assert claimed_by(folder) == (BEGUN if any(batches) else WITHDRAWN)
        assert sorted(os.listdir(folder)) == ["claim"]  # noqa: PTH208  as above


def test_withdrawal_takes_the_secrets_along(tmp_path: Path) -> None:
    (tmp_path / "order").write_text("secret")
    assert withdraw(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["claim"]
    assert stat.S_IMODE((tmp_path / "claim").stat().st_mode) == 0o600


def test_folder_that_is_gone_is_claimed_by_nobody(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        take_claim(str(tmp_path / "gone"), BEGUN)


def test_link_whose_answer_was_lost_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def unheard(source: str, target: str) -> None:
        link(source, target)
        raise OSError(5, "the answer of the file server is lost")

    monkeypatch.setattr(os, "link", unheard)
    assert take_claim(str(tmp_path), BEGUN)
    assert claimed_by(str(tmp_path)) == BEGUN


def test_commands_are_whole_lines_from_where_one_was(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert commands_after(folder, 0) == []
    add_command(folder, {"do": "suspend", "term": 1})
    (first,) = commands_after(folder, 0)
    add_command(folder, {"do": "fence", "term": 2})
    with (tmp_path / "commands").open("ab") as file:
        file.write(b'{"do": "torn')
    assert commands_after(folder, len(first)) == [b'{"do": "fence", "term": 2}\n']
