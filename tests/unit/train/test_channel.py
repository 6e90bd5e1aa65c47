import signal
import threading
from pathlib import Path

from shunter.train import channel


def test_answers_are_found_by_rank(tmp_path: Path) -> None:
    for rank in (0, 1):
        channel.put(channel.answer_path(tmp_path, "saved", 3, rank), {"world": 2, "step": 9})
    channel.put(channel.answer_path(tmp_path, "saved", 4, 0), {"world": 2})
    assert {rank: each["step"] for rank, each in channel.answers(tmp_path, "saved", 3).items()} == {
        0: 9,
        1: 9,
    }
    assert channel.is_saved(tmp_path, 3)
    assert not channel.is_saved(tmp_path, 4)
    assert not channel.is_saved(tmp_path, 5)


def test_only_the_first_creates(tmp_path: Path) -> None:
    path = tmp_path / "stop.1.json"
    assert channel.create(path, {"tick": 4})
    assert not channel.create(path, {"tick": 5})
    assert channel.get(path) == {"tick": 4}
    assert [each.name for each in sorted(tmp_path.iterdir())] == [
        "stop.1.json"
    ]  # nothing left behind


def test_half_a_document_reads_as_none(tmp_path: Path) -> None:
    (tmp_path / "suspend.json").write_text('{"request": 1')
    assert channel.get(tmp_path / "suspend.json") is None
    assert channel.get(tmp_path / "absent.json") is None


def test_request_carries_its_number_and_deadline(tmp_path: Path) -> None:
    channel.ask_suspend(tmp_path, 2, 30.0)
    document = channel.get(tmp_path / channel.SUSPEND)
    assert document is not None
    assert (document["request"], document["deadline_s"]) == (2, 30.0)


def test_import_outside_the_main_thread_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGUSR2)
    environment = {channel.CHANNEL: "folder", channel.SUSPEND_SIGNAL: "USR2"}
    thread = threading.Thread(target=channel.Bell().listen, args=[environment])
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGUSR2) is before


def test_signal_nobody_knows_is_left_alone() -> None:
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
    before = [signal.getsignal(number) for number in numbers]
    channel.Bell().listen({channel.CHANNEL: "folder", channel.SUSPEND_SIGNAL: "NONE"})
    assert [signal.getsignal(number) for number in numbers] == before


def test_rank_is_read_from_our_variable_before_the_launchers() -> None:
    assert channel.first_number({"RANK": "3", "SHUNTER_RANK": "1"}, channel.RANK, 0) == 1
    assert channel.first_number({"RANK": "3"}, channel.RANK, 0) == 3
    assert channel.first_number({"RANK": "x"}, channel.RANK, 0) == 0
