import csv
from pathlib import Path

import pytest

from shunter.config import load_config
from shunter.errors import ShunterError
from shunter.run import COLUMNS, simulate, write_jobs
from tests.unit.app.conftest import Generated


def test_each_job_has_a_row_in_the_order_of_the_trace(config_file: Path, tmp_path: Path) -> None:
    result = simulate(load_config(config_file, [], {}))
    path = tmp_path / "out.csv"

    write_jobs(path, result.stories(), 5)

    header, *rows = path.read_text().splitlines()
    assert header == (
        "job_id,user,gpus,submit_s,first_start_s,finish_s,jct_s,wait_s,attained_gpu_s,"
        "preemptions,migrations,status"
    )
    assert rows == [
        "a,ana,8,0,0,100,100,0,800,0,0,finished",
        "b,bo,4,10,100,150,140,90,200,0,0,finished",
        "c,bo,16,20,,,,,0,0,0,rejected",
        "d,ana,1,30,100,110,80,70,10,0,0,failed",
        "e,ana,1,40,100,110,70,60,10,0,0,cancelled",
    ]


def test_rows_add_up_to_the_document(generated: Generated, tmp_path: Path) -> None:
    result = simulate(generated(policy__name="las", policy__params__las__queues_gpu_s=["1m"]))
    path = tmp_path / "out.csv"

    write_jobs(path, result.stories(), 60)

    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert sum(int(row["preemptions"]) for row in rows) == result.document["preemptions"]
    mean = sum(float(row["jct_s"]) for row in rows) / 60
    assert mean == pytest.approx(result.document["jct_s"]["mean"])


def test_a_file_that_cannot_be_written_is_an_error() -> None:
    with pytest.raises(ShunterError, match="cannot write /dev/full: No space left"):
        write_jobs(Path("/dev/full"), [], 0)
