import os
import signal
import threading
from pathlib import Path

from shunter.train import channel
from tests.unit.train.toy import Supervisor


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


def test_number_that_is_none_is_the_default() -> None:
    assert channel.number_in({"RANK": "3"}, channel.RANK, 0) == 3
    assert channel.number_in({"RANK": "x"}, channel.RANK, 0) == 0
    assert channel.number_in({}, channel.WORLD, 1) == 1


def test_line_too_long_for_one_piece_is_cut_to_what_it_is(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        line = channel.Channel(str(supervisor.line))
        line.tell("failed", error="x" * channel.LINE_BYTES_MAX)
        assert supervisor.told("failed") == [{"what": "failed"}]


def test_nobody_who_reads_costs_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "channel")
    channel.Channel(str(tmp_path / "channel")).tell("progress")
    channel.Channel(str(tmp_path / "absent")).tell("progress")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["channel"]
