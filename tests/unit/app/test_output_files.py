"""Files are looked at before the work that makes them, and replaced by whole ones only."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import make_config
from shunter.errors import ShunterError, UsageError
from shunter.output_files import check_target, replacing, write_text
from shunter.run import simulate


def test_text_takes_the_place_of_a_file_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text("old")
    path.chmod(0o640)
    check_target(path)
    assert path.read_text() == "old"
    write_text(path, "new\n")
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(tmp_path.iterdir()) == [path]


def test_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "table.json"
    link.symlink_to("real/table.json")
    write_text(link, "first")
    write_text(link, "second")
    assert link.is_symlink()
    assert (tmp_path / "real" / "table.json").read_text() == "second"


def test_file_stays_where_the_new_one_does_not_come_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as file:
            file.write("half")
            raise OSError(28, os.strerror(28))

    with pytest.raises(ShunterError, match=r"cannot write .*table\.json: No space left"):
        write_half()
    assert path.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == [path]


def test_what_is_no_plain_file_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_target(pipe)
        write_text(pipe, "told")
        assert os.read(reader, 10) == b"told"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    check_target(Path(os.devnull))
    write_text(Path(os.devnull), "lost")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_our_own_output_is_written_on(tmp_path: Path) -> None:
    """`--jobs-out /dev/stdout > file`: neither takes the place of the other."""
    script = (
        "from pathlib import Path; from shunter.output_files import check_target, write_text; "
        "path = Path('/dev/stdout'); check_target(path); print('first'); "
        "write_text(path, 'second\\n'); print('third')"
    )
    path = tmp_path / "out"
    with path.open("wb") as file:
        subprocess.run([sys.executable, "-c", script], stdout=file, check=True)
    assert path.read_text() == "first\nsecond\nthird\n"


def test_file_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    (tmp_path / "nowhere").symlink_to("no/such")
    for name in ("no/out.csv", "plain/out.csv", ".", "/proc/out.json", "n" * 300, "nowhere"):
        with pytest.raises(UsageError, match="cannot write "):
            check_target(tmp_path / name)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["nowhere", "plain"]


@pytest.mark.needs("another user than root")
def test_file_in_a_folder_that_we_may_not_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="name a file in a folder that you may write"):
        check_target(tmp_path / "out.csv")


@pytest.mark.parametrize("address", ["run.db", "sqlite:///run.db"])
def test_log_is_not_written_over_by_what_is_read_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.db").write_bytes(b"log")
    Path("link").symlink_to("run.db")
    for name in ("run.db", "link", str(tmp_path / "run.db")):
        with pytest.raises(UsageError, match="it is the log itself; name another file"):
            check_target(Path(name), address)
    check_target(Path("other"), address)
    check_target(Path("other"), "gone.db")


@pytest.mark.parametrize("suffix", [".anchor", ".lock", "-wal", "-shm", "-journal"])
def test_files_beside_a_log_are_not_written_over(tmp_path: Path, suffix: str) -> None:
    url, beside = tmp_path / "run.db", tmp_path / f"run.db{suffix}"
    (tmp_path / "link.db").symlink_to(url)
    for log in (url, tmp_path / "link.db"):
        with pytest.raises(UsageError, match=r"it belongs to the log .*; name another file"):
            check_target(beside, str(log))
    url.touch()
    beside.touch()
    (tmp_path / "hard").hardlink_to(beside)
    with pytest.raises(UsageError, match="it belongs to the log"):
        check_target(tmp_path / "hard", str(url))


TABLES = ("table.csv", "link.csv", "hard.csv", "c.toml", "run.db", "run.db.anchor", "history.txt")


@pytest.mark.parametrize("name", TABLES)
def test_simulation_writes_no_jobs_over_what_it_needs(tmp_path: Path, name: str) -> None:
    """Also not over the log that it is about to make."""
    trace = tmp_path / "table.csv"
    trace.write_text("job_id,submit_s,gpus,duration_s\na,0,1,10\n")
    (tmp_path / "history.txt").write_text("service_s\n10\n20\n")
    (tmp_path / "link.csv").symlink_to(trace)
    (tmp_path / "hard.csv").hardlink_to(trace)
    config = tmp_path / "c.toml"
    config.write_text(
        'cluster.nodes = [{name = "n", gpus = 1}]\nworkload.trace = "table.csv"\n'
        'policy = {name = "gittins", params.gittins.history = "history.txt"}\n'
        'log.url = "run.db"\n'
    )
    before = {each.name: each.read_bytes() for each in sorted(tmp_path.iterdir())}
    words = ["simulate", str(config), "--jobs-out"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / name)])
    assert done.exit_code == 2, done.output
    assert f"cannot write {tmp_path / name}: " in done.stderr
    assert {each.name: each.read_bytes() for each in sorted(tmp_path.iterdir())} == before
    done = CliRunner().invoke(app, [*words, str(tmp_path / "out.csv")])
    assert done.exit_code == 0, done.output


def test_tables_do_not_take_the_place_of_their_log(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    log = tmp_path / "jobs.parquet"
    log.write_bytes(b"log")
    done = CliRunner().invoke(app, ["log", "export", str(log), "--parquet", str(tmp_path)])
    assert done.exit_code == 2
    assert "it is the log itself" in done.stderr
    assert log.read_bytes() == b"log"


@pytest.mark.parametrize("words", [["-o"], ["--as-trace", "-o"], ["--perfetto"]], ids=str)
def test_export_leaves_log_and_earlier_export_as_they_are(tmp_path: Path, words: list[str]) -> None:
    """A log could be lost with its own export, and an export with one that fails."""
    url, export = tmp_path / "run.db", tmp_path / "export"
    made = {"kind": "philly-like", "jobs": 3}
    nodes = [{"name": "n", "count": 1, "gpus": 4}]
    tree = {"cluster": {"nodes": nodes}, "workload": {"generate": made}}
    simulate(make_config({**tree, "log": {"url": str(url)}}))
    before = url.read_bytes()
    done = CliRunner().invoke(app, ["log", "export", str(url), *words, str(url)])
    assert done.exit_code == 2
    assert url.read_bytes() == before
    done = CliRunner().invoke(app, ["log", "export", str(url), *words, str(export)])
    assert done.exit_code == 0, done.output
    whole = export.read_bytes()
    url.write_bytes(before[: len(before) // 2])
    done = CliRunner().invoke(app, ["log", "export", str(url), *words, str(export)])
    assert done.exit_code != 0
    assert export.read_bytes() == whole
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith(".")) == []
