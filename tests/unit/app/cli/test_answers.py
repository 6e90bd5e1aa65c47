"""What commands without a daemon answer: each row is a command, its exit code, and its words.

A row is `COMMAND -> CODE: WORDS` where the words are on stdout, `COMMAND -> CODE! WORDS` where they
are on stderr; indented lines have more words of each. Who refuses says nothing on stdout. Commands
run in a folder with a config of five jobs (run.toml, jobs.csv) and a trace that gives steps.
"""

import csv
import json
import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from shunter.cli import app
from tests.unit.app.conftest import WriteConfig

PHILLY = str(Path("tests/data/traces/philly_job_log.json").absolute())
VALIDATE = "config validate run.toml --set"
TABLE = f"""
--version -> 0: shunter
config validate run.toml -> 0: right; 8 GPUs on 2 servers
{VALIDATE} workload.sensitivity=builtin:synergy --set cluster.nodes.0.cpus=120
  -> 0! warning: builtin:synergy: a GPU of
  ! goes with 30 CPUs for each GPU, and the table has 1 to 24: beyond
config show run.toml -> 0: policy.name = "fifo"
  : cluster.nodes.0.gpus = 4
config show run.toml --origin --set seed=5 -> 0: seed = 5
  : # --set seed
  : run.toml:11
policy list -> 0: srtf*
policy show fifo_easy -> 0: [policy.params.fifo_easy]
  : default_limit = "365d"
policy show fifo -> 0: It takes no parameters.
policy show lsa -> 3! did you mean 'las'?
trace describe jobs.csv --gpus 8 -> 0: GPU-hours
  : load
  ! 5 rows read, 0 dropped, 5 jobs
trace describe jobs.csv --rows=5 -> 2! expected FIRST:END
trace describe jobs.csv --rows=a:b -> 2! expected FIRST:END
trace describe jobs.csv --rows=-1:5 -> 2! expected FIRST:END
trace describe {PHILLY} --option attempts -> 2! error:
trace describe {PHILLY} --option attempts=some -> 2! error:
trace describe {PHILLY} --option nope=1 -> 2! error:
trace describe steps.trace -> 2! --throughputs
trace generate --kind alien --jobs 3
  -> 2! expected one of philly-like, tiresias-like, gavel-like, synergy-like
trace convert jobs.csv
  -> 0: job_id,submit_s,duration_s,status,gpus,user
  : a,0,100,finished,8
compare run.toml --policies fifo --seeds 2 -j 1 --set workload.generate.jobs=20 -> 0:  ±
compare run.toml --policies '' -> 2! error:
compare run.toml --policies , -> 2! error:
compare run.toml --policies fifo,fifo -> 2! error:
simulate run.toml -> 0: 5 submitted, 2 finished, 1 failed, 1 cancelled, 1 rejected
  : mean JCT
  : log              not kept  digest
simulate run.toml --policy srtf -> 0: srtf*
  : * oracle
simulate run.toml --policy nope -> 2! error: --policy policy.name: no policy 'nope'
simulate run.toml --set seed=x -> 2! error: --set seed: expected a whole number
simulate run.toml --jobs-out no/such/x.csv -> 2! name a file in a folder that exists
simulate run.toml --log postgresql://x/y -> 2! no log can be kept
simulate run.toml --log no/such/folder/x.db -> 1! error:
simulate run.toml --nope -> 2! No such option
simulate nope.toml -> 3! there is no config file
log export gone.db --perfetto x --as-trace -> 2! leave -o and --as-trace out
log export gone.db --perfetto x -o y -> 2! leave -o and --as-trace out
log export gone.db --parquet x --as-trace -> 2! leave -o, --as-trace and --perfetto out
log export gone.db --parquet x -o y -> 2! leave -o, --as-trace and --perfetto out
diff a.db b.db -> 3! a.db
log export gone.db --perfetto no/such/x -> 2! name a file in a folder that exists
trace convert jobs.csv -o jobs.csv -> 2! this command needs
trace fit gone.db -o out --rates out -> 2! this command needs
trace fit gone.db -o no/file -> 2! name a file in a folder that exists
trace convert gone.csv -o no/file -> 2! name a file in a folder that exists
trace generate -o no/file -> 2! name a file in a folder that exists
trace import --slurm-sacct gone.txt -o no/file -> 2! name a file in a folder that exists
log export gone.db -o no/file -> 2! name a file in a folder that exists
no-such-command -> 2! No such command
simulate -> 2! Missing argument
log j1 -> 2! `shunter logs j1`
status -> 2! `shunter show JOB` or `shunter queue`
squeue -u ana -> 2! `shunter queue`
scancel j1 -> 2! `shunter cancel JOB`
quue -> 2! 'queue'
why j1 --log run.db --url unix:/nowhere -> 2! --log reads a log without a daemon and --url asks one
queue --eta --log run.db --url unix:/nowhere
  -> 2! --log reads a log without a daemon and --url asks one
"""
REFUSED_ALIKE = """
policy.sizing=tune --set cluster.nodes.0.memory_gb=64
  -> run.toml: policy.sizing: 'tune' goes by how sensitive models are
policy.name=gandiva -> run.toml: policy gandiva shares GPUs in turns
policy.topology.make_room.moves_most=2
  -> run.toml: policy.topology.make_room: expected policy.placement = 'topology'
policy.decentralised.schedulers=callers
  -> run.toml: policy.decentralised.schedulers: nobody calls in a simulation
policy.slicing.quantum=60s --set policy.decentralised.candidates=2
  -> run.toml: policy.decentralised: with policy.slicing jobs are put on GPUs that others have
workload.trace=nope.csv -> workload.trace: there is no file nope.csv
workload.trace=. -> cannot read trace .:
workload.rows=[1,99] -> jobs.csv has 5 usable rows: rows = [1, 99]
"""


def rows(table: str) -> list[list[str]]:
    """Return the parts of each row: what is asked, and what is answered."""
    joined = table.strip().replace("\n  -> ", " -> ")
    return [row.split(" -> ") for row in re.split(r"\n(?! )", joined)]


def run(command: str) -> Result:
    return CliRunner().invoke(app, shlex.split(command))


def document(command: str) -> Any:
    return json.loads(run(f"{command} --json").stdout)


@pytest.fixture(autouse=True)
def _folder(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(config_file.parent)
    Path("steps.trace").write_text("A3C\ttrue\t-n\t1\t718\t0\t1\n")


@pytest.mark.parametrize(("command", "answer"), rows(TABLE))
def test_command_answers_as_the_row_says(command: str, answer: str) -> None:
    code, (_, *parts) = answer[0], re.split(r"(?:\A|\n  )([:!]) ?", answer[1:])
    done = run(command)

    assert done.exit_code == int(code), done.output
    for stream, words in zip(parts[::2], parts[1::2], strict=True):
        assert words in (done.stdout if stream == ":" else done.stderr)
    if done.exit_code:
        assert done.stdout == ""


@pytest.mark.parametrize(("settings", "words"), rows(REFUSED_ALIKE))
def test_config_validate_refuses_what_no_run_takes(settings: str, words: str) -> None:
    refused = run(f"{VALIDATE} {settings}")

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert words in refused.stderr
    assert run(f"simulate run.toml --set {settings}").stderr == refused.stderr


def test_config_show_says_where_each_value_came_from() -> None:
    shown = run("config show run.toml --origin --set seed=5").stdout
    lines = {line.split(" = ")[0]: line.split("# ")[1] for line in shown.splitlines()}
    assert lines["seed"] == "--set seed"
    assert lines["policy.name"].endswith("run.toml:11")
    assert lines["policy.round"] == "default"
    (schema, *_) = document("config show run.toml --origin")
    assert (schema["key"], schema["value"]) == ("schema", 1)
    assert schema["origin"].endswith("run.toml:1")


def test_documents_hold_what_the_text_tells() -> None:
    shown = document("config show run.toml")
    assert shown["policy"]["round"] == "1m"
    assert shown["cluster"]["nodes"][0]["name"] == "gpu[1-2]"
    assert json.loads(run("config schema").stdout)["title"] == "Config"
    las = next(each for each in document("policy list") if each["name"] == "las")
    assert las["oracle"] is False
    assert las["params"][0]["key"] == "queues_gpu_s"
    assert las["params"][0]["default"] == ["1h", "20h"]
    part = document("trace describe jobs.csv --rows 1:4")
    assert (part["jobs"], part["quality"]["rows_read"]) == (3, 5)
    last, every = (
        document(f"trace describe {PHILLY} --option attempts={which}") for which in ("last", "all")
    )
    assert last["digest"] != every["digest"]


def test_rows_that_are_dropped_are_told_on_stderr() -> None:
    with Path("jobs.csv").open("a") as file:
        file.write("f,50,-1,5,ana,finished\n\n")

    validated, simulated = run("config validate run.toml"), run("simulate run.toml --json")
    for done in (validated, simulated):
        assert done.exit_code == 0
        assert "dropped 1 row: gpus is negative" in done.stderr
    assert json.loads(simulated.stdout)["trace"]["rows_dropped"] == 1


def test_trace_that_gives_steps_is_converted_by_a_table() -> None:
    done = run("trace convert steps.trace --throughputs builtin:gavel")
    (row,) = csv.DictReader(done.stdout.splitlines())
    assert row["duration_s"] == "100"


def test_generated_trace_is_read_again_and_stands_alone_on_stdout() -> None:
    assert run("trace generate --jobs 20 --gpus 8 -o made.csv").exit_code == 0
    assert document("trace describe made.csv")["jobs"] == 20
    printed = run("trace generate --jobs 3 --to canonical-jsonl").stdout
    assert len([json.loads(line) for line in printed.splitlines()]) == 3
    assert len(run("trace generate --kind gavel-like --jobs 3").stdout.splitlines()) == 4


def test_compare_prints_a_row_for_each_policy() -> None:
    done = run("compare run.toml --policies fifo,srtf -j 1")
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[2:4]] == ["fifo", "srtf*"]


def test_options_beat_the_file_and_the_later_set_wins() -> None:
    found = document("simulate run.toml --policy las --set seed=8 --set seed=9")
    assert (found["policy"], found["seed"], found["jobs"]["submitted"]) == ("las", 9, 5)


def test_jobs_out_has_a_row_for_each_job() -> None:
    run("simulate run.toml --jobs-out out.csv")
    found = [row["status"] for row in csv.DictReader(Path("out.csv").read_text().splitlines())]
    assert found == ["finished", "finished", "rejected", "failed", "cancelled"]


@pytest.mark.parametrize("address", ["{}", "sqlite+aiosqlite:///{}"])
def test_an_existing_log_is_replaced_only_by_the_option_that_is_named(
    address: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.db"
    command = f"simulate run.toml --log {address.format(path)}"
    first, before = document(command), path.read_bytes()

    again = run(command)

    assert (again.exit_code, again.stdout) == (2, "")
    assert "there already" in again.stderr
    assert "--overwrite" in again.stderr
    assert path.read_bytes() == before
    assert document(f"{command} --overwrite")["log"]["digest"] == first["log"]["digest"]
    for words in ("replay run.db", "log stats run.db"):
        assert run(words).stdout.startswith("log  "), words


QUESTION = "select kind, count(*) as n, max(term) from events, head group by kind order by 1 desc"


def test_log_is_compressed_unless_plain_sql_shall_read_it() -> None:
    run("simulate run.toml --log packed.db")
    run("simulate run.toml --log plain.db --plain-log")
    with closing(sqlite3.connect("plain.db")) as connection:
        expected = [list(row) for row in connection.execute(QUESTION)]
    for log in ("packed.db", "plain.db"):
        assert document(f"log sql {log} '{QUESTION}'")["rows"] == expected
    with (
        closing(sqlite3.connect("packed.db")) as connection,
        pytest.raises(sqlite3.OperationalError, match="shunter log sql"),
    ):
        connection.execute(QUESTION).fetchall()

    told = run(f"log sql packed.db '{QUESTION}'").stdout.split("\n")
    assert told[0].split() == ["kind", "n", "max(term)"]
    assert told[2].split() == [str(value) for value in expected[0]]


def test_answer_of_many_rows_has_a_line_for_each() -> None:
    """It is printed as its rows come: none is folded, however wide, and it may have no end."""
    run("simulate run.toml --log run.db")
    question = (
        "with recursive n(x) as (select 1 union all select x + 1 from n limit 1200) "
        "select x, hex(zeroblob(x)) as zeros from n"
    )
    head, _, *rows = run(f"log sql run.db '{question}'").stdout.splitlines()
    assert head == "  x   zeros"
    assert rows == [f"{x:>3}   {'00' * x}" for x in range(1, 1201)]


def test_question_in_sql_that_is_none_is_refused_with_what_may_be_asked() -> None:
    run("simulate run.toml --log run.db")
    refused = run("log sql run.db 'drop table frames'")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "(seq, at_us, kind, job_id, payload)" in refused.stderr
    assert run("log verify run.db").exit_code == 0


def test_each_wrong_key_has_a_line_of_its_own(write_config: WriteConfig) -> None:
    write_config("sead = 1\n[clutser]\n")
    done = run("simulate run.toml")
    assert done.exit_code == 2
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 4


@pytest.mark.parametrize("words", ["simulate", "compare --policies fifo,las"])
def test_config_of_a_live_cluster_has_no_jobs_to_simulate(words: str) -> None:
    assert run("init --local --gpus 4 --out shunter.toml").exit_code == 0
    refused = run(f"{words} shunter.toml")
    assert refused.exit_code == 2
    assert "shunter.toml: workload: missing; a simulation needs the jobs" in refused.stderr
    assert "`shunter trace fit LOG`" in refused.stderr


def test_one_job_on_one_server_is_counted_as_one_by_all_that_reads_it(
    write_config: WriteConfig,
) -> None:
    write_config(
        '[[cluster.nodes]]\nname = "n"\ngpus = 1\n[workload]\ntrace = "one.csv"\n'
        '[policy]\nname = "fifo"\n'
    )
    Path("one.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,1,60\n")
    for words in (
        "simulate run.toml --log run.db",
        "simulate run.toml --policy las --log other.db",
        "replay run.db",
        "diff run.db other.db",
        "trace describe one.csv",
    ):
        done = run(words)
        assert done.exit_code in (0, 6), done.output
        assert re.findall(r"\b1 (?:jobs|servers|GPUs|rows)\b", done.output) == [], done.output


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("submit -- true", "cd to another one, or name one with --chdir"),
        ("submit --dry-run true", "cd to another one, or name one with --chdir"),
        ("doctor", "cd to another one"),
        ("log verify run.db", "cd to another one"),
        ("why j1 --log run.db", "cd to another one"),
    ],
)
def test_folder_that_is_gone_is_told_in_one_line(
    command: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUNTER_URL", f"unix:{tmp_path}/s")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = run(command)
    said = f"error: the current folder is gone: {advice}\n"
    assert (done.exit_code, done.stderr) == (3, said)
