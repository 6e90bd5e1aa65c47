import csv
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app

WriteConfig = Callable[[str], Path]
run = CliRunner().invoke


def test_json_is_one_document_and_alone_on_stdout(config_file: Path) -> None:
    done = run(app, ["simulate", str(config_file), "--json"])

    assert done.exit_code == 0
    assert json.loads(done.stdout)["jobs"]["submitted"] == 5


def test_what_was_wrong_with_the_trace_goes_to_stderr(config_file: Path) -> None:
    with (config_file.parent / "jobs.csv").open("a") as file:
        file.write("f,50,-1,5,ana,finished\n\n")

    done = run(app, ["simulate", str(config_file), "--json"])

    assert json.loads(done.stdout)["trace"]["rows_dropped"] == 1
    assert "dropped 1 row: gpus is negative" in done.stderr


def test_people_get_a_table(config_file: Path) -> None:
    done = run(app, ["simulate", str(config_file)])

    assert "5 submitted, 2 finished, 1 failed, 1 cancelled, 1 rejected" in done.stdout
    assert "mean JCT" in done.stdout


def test_an_oracle_is_marked_in_the_table(config_file: Path) -> None:
    done = run(app, ["simulate", str(config_file), "--policy", "srtf"])

    assert "srtf*" in done.stdout
    assert "* oracle" in done.stdout


def test_options_beat_the_file_and_the_later_set_wins(config_file: Path) -> None:
    settings = ["--policy", "las", "--set", "seed=8", "--set", "seed=9"]

    done = run(app, ["simulate", str(config_file), *settings, "--json"])

    document = json.loads(done.stdout)
    assert (document["policy"], document["seed"]) == ("las", 9)


def test_jobs_out_has_a_row_for_each_job(config_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"

    run(app, ["simulate", str(config_file), "--jobs-out", str(path)])

    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["status"] for row in rows] == [
        "finished",
        "finished",
        "rejected",
        "failed",
        "cancelled",
    ]


@pytest.mark.parametrize("address", ["{}", "sqlite+aiosqlite:///{}"])
def test_an_existing_log_is_exit_2_and_not_touched(
    address: str, config_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.db"
    command = ["simulate", str(config_file), "--log", address.format(path)]
    first = run(app, [*command, "--json"])
    before = path.read_bytes()

    again = run(app, command)
    replaced = run(app, [*command, "--overwrite", "--json"])

    assert again.exit_code == 2
    assert "there already" in again.stderr
    assert not again.stdout
    assert path.read_bytes() == before
    digests = [json.loads(done.stdout)["log"]["digest"] for done in (first, replaced)]
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--policy", "nope"], 2, "error: --policy policy.name: no policy 'nope'"),
        (["--set", "seed=x"], 2, "error: --set seed: expected a whole number"),
        (["--set", "workload.trace=nope.csv"], 2, "there is no file nope.csv"),
        (["--set", "workload.rows=[0, 99]"], 2, "has 5 usable rows"),
        (["--jobs-out", "no/such/folder/x.csv"], 2, "name a file in a folder that exists"),
        (["--log", "postgresql://x/y"], 2, "no log can be kept"),
        (["--log", "no/such/folder/x.db"], 1, "error: "),
        (["--nope"], 2, "No such option"),
    ],
)
def test_errors_go_to_stderr_with_their_exit_code(
    arguments: list[str], code: int, message: str, config_file: Path
) -> None:
    done = run(app, ["simulate", str(config_file), "--json", *arguments])

    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr


def test_each_wrong_key_has_a_line_of_its_own(write_config: WriteConfig) -> None:
    path = write_config("sead = 1\n[clutser]\n")

    done = run(app, ["simulate", str(path)])

    assert done.exit_code == 2
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 4


def test_a_missing_config_is_exit_3(tmp_path: Path) -> None:
    done = run(app, ["simulate", str(tmp_path / "nope.toml")])

    assert done.exit_code == 3
    assert "there is no config file" in done.stderr


@pytest.mark.parametrize("words", [["simulate"], ["compare", "--policies", "fifo,las"]])
def test_config_of_a_live_cluster_has_no_jobs_to_simulate(words: list[str], tmp_path: Path) -> None:
    config = tmp_path / "shunter.toml"
    assert run(app, ["init", "--local", "--gpus", "4", "--out", str(config)]).exit_code == 0
    refused = run(app, [*words, str(config)])
    assert refused.exit_code == 2
    assert "shunter.toml: workload: missing; a simulation needs the jobs" in refused.stderr
    assert "`shunter trace fit LOG`" in refused.stderr


def test_one_job_on_one_server_is_counted_as_one_by_all_that_reads_it(tmp_path: Path) -> None:
    trace, config = tmp_path / "jobs.csv", tmp_path / "one.toml"
    trace.write_text("job_id,submit_s,gpus,duration_s\na,0,1,60\n")
    config.write_text(
        '[[cluster.nodes]]\nname = "n"\ngpus = 1\n[workload]\ntrace = "jobs.csv"\n'
        f'[policy]\nname = "fifo"\n[log]\nurl = "{tmp_path}/run.db"\n'
    )
    log, other = str(tmp_path / "run.db"), str(tmp_path / "other.db")
    commands = [
        ["simulate", str(config)],
        ["simulate", str(config), "--policy", "las", "--log", other],
        ["replay", log],
        ["diff", log, other],
        ["trace", "describe", str(trace)],
    ]
    for words in commands:
        done = run(app, words)
        assert done.exit_code in (0, 6), done.output
        assert re.findall(r"\b1 (?:jobs|servers|GPUs|rows)\b", done.output) == [], done.output


QUESTION = "select kind, count(*) as n, max(term) from events, head group by kind order by 1 desc"


def test_log_is_compressed_unless_plain_sql_shall_read_it(config_file: Path) -> None:
    packed, plain = config_file.with_name("packed.db"), config_file.with_name("plain.db")
    run(app, ["simulate", str(config_file), "--log", str(packed)])
    run(app, ["simulate", str(config_file), "--log", str(plain), "--plain-log"])

    answers = [run(app, ["log", "sql", str(log), QUESTION, "--json"]) for log in (packed, plain)]
    with closing(sqlite3.connect(plain)) as connection:
        expected = [list(row) for row in connection.execute(QUESTION)]
    with closing(sqlite3.connect(packed)) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute(QUESTION).fetchall()

    assert (
        json.loads(answers[0].stdout)["rows"] == json.loads(answers[1].stdout)["rows"] == expected
    )
    told = run(app, ["log", "sql", str(packed), QUESTION]).stdout.split("\n")
    assert told[0].split() == ["kind", "n", "max(term)"]
    assert told[2].split() == [str(value) for value in expected[0]]


def test_question_in_sql_that_is_none_is_refused_with_what_may_be_asked(config_file: Path) -> None:
    log = str(config_file.with_name("run.db"))
    run(app, ["simulate", str(config_file), "--log", log])

    refused = run(app, ["log", "sql", log, "drop table frames"])

    assert refused.exit_code == 2
    assert "seq, at_us, kind, job_id, payload" in refused.stderr
    assert run(app, ["log", "verify", log]).exit_code == 0
