"""The output of ranks: its bound, its speeds, when it was printed, and what wakes who looks."""

import select
from pathlib import Path

import pytest

from shunter.backends.node import (
    LINES_MOST,
    LOOK_BYTES,
    PAUSE_S,
    Times,
    Writes,
    bound,
    offset_at,
    parsed_times,
    printed_speed,
)


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        (" 45%|####5     | 450/1000 [00:10<00:12, 40.0it/s]", (450, 0.025)),
        ("  1%|          | 9/1000 [00:10<00:12,  2.50s/it, loss=0.3]", (9, 2.5)),
        ("1/9 [00:01<00:08,  1.00it/s]\r2/9 [00:01<00:07,  2.00it/s]", (2, 0.5)),
        ("step 7 done at 4it/s", (None, 0.25)),
        ("0/9 [00:00<?, ?it/s]", (None, None)),
        ("0.00it/s", (None, None)),
        ("loss 0.25, 4 bits", (None, None)),
        ("", (None, None)),
    ],
)
def test_last_bar_counts(tmp_path: Path, text: str, speed: tuple[int | None, float | None]) -> None:
    (tmp_path / "stderr.0").write_text(text)
    assert printed_speed(str(tmp_path / "stderr.0")) == speed


def test_only_the_end_of_a_long_output_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stderr.0"
    path.write_bytes(b"1/9 [00:01<00:08, 1.00it/s]" + b"\xff" * LOOK_BYTES)
    assert printed_speed(str(path)) == (None, None)


def test_absent_output_has_no_speed(tmp_path: Path) -> None:
    assert printed_speed(str(tmp_path / "absent")) == (None, None)


def test_long_output_keeps_its_ends_and_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "stdout.0"
    path.write_text("".join(f"line {number}\n" for number in range(2_000)))
    size = path.stat().st_size
    dropped = bound(str(path), 8_000)
    kept = path.read_text()
    assert kept.startswith("line 0\nline 1\n")
    assert kept.endswith("line 1998\nline 1999\n")
    marks = [line for line in kept.splitlines() if line.startswith("shunter: ")]
    assert marks == [f"shunter: {dropped} bytes of output dropped here, a file may hold 8000"]
    assert len(kept) - len(marks[0]) - 2 + dropped == size
    assert len(kept) < 8_000


def test_output_within_its_bound_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "stdout.0"
    path.write_text("x" * 100)
    assert bound(str(path), 100) == 0
    assert path.read_text() == "x" * 100
    assert bound(str(tmp_path / "absent"), 100) == 0


@pytest.mark.parametrize("printed", [b"x" * 1_000_000, "é".encode() * 500_000])
def test_output_without_line_ends_is_kept_up_to_its_bound(tmp_path: Path, printed: bytes) -> None:
    """A progress bar draws over itself: its end is not to go for the want of a line end."""
    path, most = tmp_path / "stdout.0", 2 << 20
    path.write_bytes(printed * 60 + b"\nTHE END\n")
    assert bound(str(path), most) > 0
    assert path.stat().st_size <= most
    assert path.stat().st_size >= most * 3 // 4 - (1 << 16)
    kept = path.read_text(encoding="utf-8")  # no letter is cut in two behind the gap
    assert kept.endswith("\nTHE END\n")


def test_what_is_printed_while_the_middle_goes_is_kept_in_order(tmp_path: Path) -> None:
    path, most = tmp_path / "stdout.0", 1 << 20
    with path.open("ab", buffering=0) as printing:
        for number in range(200_000):
            printing.write(b"line %d\n" % number)
            if number % 1_000 == 0:
                bound(str(path), most)
    numbers = [
        int(line.split()[1]) for line in path.read_text().splitlines() if line[:5] == "line "
    ]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 199_999


def told(folder: Path) -> bytes:
    return (folder / "stdout-times.0").read_bytes()


def printed(folder: Path, text: bytes) -> int:
    """Print more; return how long the file is."""
    path = folder / "stdout.0"
    with path.open("ab") as file:
        file.write(text)
    return path.stat().st_size


def test_offset_is_how_long_the_file_was_before_an_instant(tmp_path: Path) -> None:
    times = Times(str(tmp_path), 1)
    sizes = {}
    for at_s in (10, 20, 30):
        sizes[at_s] = printed(tmp_path, b"line\n")
        times.look(at_s + 0.9)
    found = [offset_at(told(tmp_path), since_s) for since_s in (5, 10.5, 11, 25, 31, 1e9)]
    assert found == [0, 0, sizes[10], sizes[20], sizes[30], sizes[30]]


def test_file_that_has_not_grown_gets_no_line(tmp_path: Path) -> None:
    times = Times(str(tmp_path), 1)
    printed(tmp_path, b"once")
    for at_s in range(10):
        times.look(at_s)
    assert told(tmp_path) == b"0.000 4\n"


def test_of_old_times_ever_fewer_are_kept(tmp_path: Path) -> None:
    times = Times(str(tmp_path), 1)
    for at_s in range(3 * LINES_MOST):
        printed(tmp_path, b"x")
        times.look(at_s)
    lines = told(tmp_path).splitlines()
    assert len(lines) <= LINES_MOST
    newest = 3 * LINES_MOST
    assert offset_at(told(tmp_path), newest - 100) == newest - 100
    assert 0 < offset_at(told(tmp_path), 1000) <= 1000


def test_times_follow_output_whose_middle_was_dropped(tmp_path: Path) -> None:
    """Goal: what was printed after an instant is found where it stands now."""
    times, most, path = Times(str(tmp_path), 1), 8_000, tmp_path / "stdout.0"
    for number in range(2_000):
        printed(tmp_path, b"line %d\n" % number)
        times.look(number)
    times.drop(str(path), bound(str(path), most), most)
    kept = path.read_bytes()
    assert kept[offset_at(told(tmp_path), 1_990) :].startswith(b"line 1990\n")
    assert kept[: offset_at(told(tmp_path), 11)].endswith(b"line 10\n")
    assert offset_at(told(tmp_path), 1_000) == most // 4


def test_damaged_line_is_passed_over() -> None:
    assert offset_at(b"10 5\nx 9\n20", 100) == 5


def test_whole_seconds_of_an_older_supervisor_are_read() -> None:
    assert [offset_at(b"10 5\n", since_s) for since_s in (10.5, 11)] == [0, 5]
    assert [one.unsure_ms for one in parsed_times(b"10 5\n10.000 5\n")] == [1000, 0]


def printed_by(folder: Path, times: Times, steps: list[tuple[float, str]]) -> tuple[bytes, bytes]:
    """Let streams print at instants, each looked at then; return what was noted of both."""
    for at_s, names in steps:
        for name in names.split():
            with (folder / f"{name}.0").open("ab") as file:
                file.write(b"x")
        times.look(at_s)
    return told(folder), (folder / "stderr-times.0").read_bytes()


def test_change_of_the_stream_is_noted_when_it_was(tmp_path: Path) -> None:
    steps = [(1.0, ""), (1.1, "stdout"), (1.2, "stdout"), (1.3, "stdout"), (1.35, "stderr")]
    out, err = printed_by(tmp_path, Times(str(tmp_path), 1), [*steps, (1.4, "stdout")])
    assert out == b"1.100 1\n1.300 3\n1.400 4\n"
    assert err == b"1.350 1\n"


def test_order_within_one_look_is_told_as_unknown(tmp_path: Path) -> None:
    steps = [(1.0, ""), (1.05, "stdout stderr")]
    out, err = printed_by(tmp_path, Times(str(tmp_path), 1), steps)
    assert (out, err) == (b"1.050 1 0.050\n", b"1.050 1 0.050\n")


def test_one_stream_alone_costs_a_line_a_second(tmp_path: Path) -> None:
    times = Times(str(tmp_path), 1)
    for number in range(100):
        printed(tmp_path, b"x")
        times.look(number / 20)
    times.look(5.0, last=True)
    lines = told(tmp_path).splitlines()
    assert 5 <= len(lines) <= 7
    assert lines[-1].endswith(b" 100")


def test_lines_that_were_left_out_leave_their_time_unsure(tmp_path: Path) -> None:
    times = Times(str(tmp_path), 1)
    for at_s in range(LINES_MOST + 1):
        printed(tmp_path, b"x")
        times.look(at_s)
    assert [one.unsure_ms for one in parsed_times(told(tmp_path))][:3] == [0, 2000, 2000]


def test_clock_that_is_set_back_changes_no_order(tmp_path: Path) -> None:
    steps = [(9.0, ""), (9.5, "stdout"), (3.0, "stderr")]
    out, err = printed_by(tmp_path, Times(str(tmp_path), 1), steps)
    assert (out, err) == (b"9.500 1\n", b"9.500 1\n")


def is_told(writes: Writes) -> bool:
    assert writes.fd is not None
    return bool(select.select([writes.fd], [], [], 0)[0])


def test_first_write_is_told_and_then_there_is_a_pause(tmp_path: Path) -> None:
    path = tmp_path / "stdout.0"
    path.touch()
    writes = Writes([str(path)])
    assert not is_told(writes)
    assert writes.wait_s(1.0) == 0
    with path.open("ab", buffering=0) as file:
        file.write(b"x")
        assert is_told(writes)
        writes.take(1.0)
        assert not is_told(writes)
        assert writes.wait_s(1.0) == pytest.approx(PAUSE_S)
        file.write(b"x")
    assert is_told(writes)
    assert writes.wait_s(1.0 + PAUSE_S) == 0


def test_without_inotify_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shunter.backends.node.output.libc", object)
    writes = Writes(["nowhere"])
    assert (writes.fd, writes.wait_s(1.0)) == (None, None)
    writes.take(1.0)
