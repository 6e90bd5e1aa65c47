from pathlib import Path

import pytest

from shunter.backends.node import LOOK_BYTES, bound, printed_speed


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
