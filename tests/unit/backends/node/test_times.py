"""When output was printed: how long a file was at an instant, however long it got."""

from pathlib import Path

from shunter.backends.node.printed.output import bound
from shunter.backends.node.printed.times import LINES_MOST, Times, offset_at


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
    assert told(tmp_path) == b"0 4\n"


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
