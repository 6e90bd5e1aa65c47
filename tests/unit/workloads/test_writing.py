"""Writing traces."""

import io
from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.workloads import generate_trace, load_trace
from shunter.workloads.formats import write_trace


@pytest.mark.parametrize("name", ["canonical.csv", "canonical.jsonl"])
@pytest.mark.parametrize("form", ["canonical-csv", "canonical-jsonl"])
def test_sample_survives_conversion(samples: Path, tmp_path: Path, name: str, form: str) -> None:
    trace = load_trace(samples / name)
    write_trace(trace, tmp_path / "t", form)
    again = load_trace(tmp_path / "t")
    assert (again.format, again.jobs) == (form, trace.jobs)


def test_generated_trace_survives_conversion(tmp_path: Path) -> None:
    trace = generate_trace("philly-like", jobs=50, load=1.0, cluster_gpus=64, seed=1)
    write_trace(trace, tmp_path / "t.csv", "canonical-csv")
    assert load_trace(tmp_path / "t.csv").jobs == trace.jobs


def test_only_columns_that_say_something_are_written(samples: Path) -> None:
    file = io.StringIO()
    write_trace(load_trace(samples / "philly.csv"), file, "canonical-csv")
    assert file.getvalue() == (
        "job_id,submit_s,duration_s,gpus,queue\n"
        "1,0,2951,4,6214e9\n2,0,10,1,11cb48\n3,33,2759.5,8,6214e9\n0,2932,66,1,11cb48\n"
    )


def test_numbers_are_numbers_in_json_lines(samples: Path) -> None:
    file = io.StringIO()
    write_trace(load_trace(samples / "philly.csv", rows=(2, 3)), file, "canonical-jsonl")
    assert file.getvalue() == (
        '{"job_id": "3", "submit_s": 0, "duration_s": 2759.5, "gpus": 8, "queue": "6214e9"}\n'
    )


def test_other_formats_are_refused(samples: Path) -> None:
    trace = load_trace(samples / "philly.csv")
    with pytest.raises(TraceError, match="cannot write format 'philly-csv': expected one of"):
        write_trace(trace, io.StringIO(), "philly-csv")


def test_unwritable_path_is_an_error(samples: Path, tmp_path: Path) -> None:
    trace = load_trace(samples / "philly.csv")
    with pytest.raises(TraceError, match=r"cannot write trace .*: No such file or directory"):
        write_trace(trace, tmp_path / "none" / "t.csv", "canonical-csv")
