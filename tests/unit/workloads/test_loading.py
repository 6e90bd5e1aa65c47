"""Files that cannot be read, selections, digests, duplicates."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.workloads import load_trace

Write = Callable[[str, str], Path]

FIVE = "submit_s,duration_s,gpus\n3,10,1\n1,20,1\n2,30,1\n1,40,1\n0.5,50,1\n"


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read trace .*none\.csv: No such file"):
        load_trace(tmp_path / "none.csv")


def test_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read trace .*: Is a directory"):
        load_trace(tmp_path)


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_empty_file_is_an_error(write: Write, text: str) -> None:
    with pytest.raises(TraceError, match="is empty"):
        load_trace(write("t.csv", text))


def test_binary_file_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"submit_s,duration_s,gpus\n\xff\xfe\n")
    with pytest.raises(TraceError, match=r"line 2: not UTF-8 text \(byte 25\)"):
        load_trace(path)


def test_byte_order_mark_is_no_part_of_the_header(write: Write) -> None:
    assert len(load_trace(write("t.csv", "\ufeff" + FIVE)).jobs) == 5


def test_header_without_rows_is_an_error(write: Write) -> None:
    with pytest.raises(TraceError, match="has no usable rows"):
        load_trace(write("t.csv", "submit_s,duration_s,gpus\n"))


def test_only_bad_rows_are_an_error_that_says_why(write: Write) -> None:
    path = write("t.csv", "submit_s,duration_s,gpus\n0,-1,1\n0,-2,1\n")
    with pytest.raises(TraceError, match=r"no usable rows: dropped 2 rows: duration_s is negative"):
        load_trace(path)


def test_unknown_beginning_is_quoted(write: Write) -> None:
    path = write("t.csv", "job,start,stop\n1,2,3\n")
    with pytest.raises(TraceError, match="cannot tell the format from 'job,start,stop'"):
        load_trace(path)


def test_unknown_format_names_the_known_ones(write: Write) -> None:
    with pytest.raises(TraceError, match="unknown trace format 'xls': expected one of canonical"):
        load_trace(write("t.csv", FIVE), "xls")


def test_wrong_format_names_the_columns_it_misses(write: Write) -> None:
    with pytest.raises(TraceError, match="missing columns timestamp, duration, num_gpus"):
        load_trace(write("t.csv", FIVE), "philly-csv")


def test_unknown_option_is_an_error(write: Write) -> None:
    with pytest.raises(TraceError, match="format canonical-csv has no option 'attempts'"):
        load_trace(write("t.csv", FIVE), options={"attempts": "all"})


def test_selection_follows_a_stable_sort(write: Write) -> None:
    trace = load_trace(write("t.csv", FIVE), rows=(1, 4))
    assert [job.job_id for job in trace.jobs] == ["1", "3", "2"]


def test_instants_in_seconds_are_not_shifted(write: Write) -> None:
    trace = load_trace(write("t.csv", FIVE), rows=(1, 4))
    assert [job.submit_us for job in trace.jobs] == [1_000_000, 1_000_000, 2_000_000]
    assert trace.origin is None


def test_selection_is_reported(write: Write) -> None:
    report = load_trace(write("t.csv", FIVE), rows=(1, 4)).report
    assert (report.rows_read, report.rows_kept, report.rows_selected) == (5, 5, 3)


@pytest.mark.parametrize("rows", [(0, 6), (5, 5), (3, 2), (-1, 2), (7, 9)])
def test_selection_outside_names_the_number_of_rows(write: Write, rows: tuple[int, int]) -> None:
    with pytest.raises(TraceError, match="has 5 usable rows: rows = "):
        load_trace(write("t.csv", FIVE), rows=rows)


def test_digest_names_content_and_selection(write: Write) -> None:
    path = write("t.csv", FIVE)
    whole = load_trace(path).digest
    assert load_trace(path, "canonical-csv", (0, 5)).digest == whole
    assert load_trace(path, rows=(0, 4)).digest != whole
    assert load_trace(write("u.csv", FIVE)).digest == whole
    assert load_trace(write("t.csv", FIVE.replace("50", "51"))).digest != whole


def test_duplicate_id_is_an_error_naming_both_lines(write: Write) -> None:
    path = write("t.csv", "job_id,submit_s,duration_s,gpus\na,0,1,1\nb,0,1,1\na,0,1,1\n")
    with pytest.raises(TraceError, match=r"t\.csv, line 4: job id 'a' is that of line 2"):
        load_trace(path)


def test_importing_reads_no_parser() -> None:
    code = (
        "import sys, shunter.workloads\n"
        "sys.exit(any(name.startswith('shunter.workloads.formats.philly') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
