"""Profiling on real servers, without running a job: what is refused, and how rates are taken."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import LoadedConfig, make_config
from shunter.errors import ConfigError, UsageError
from shunter.ops import (
    BatchRate,
    LiveMachine,
    SshServer,
    ThisServer,
    drop_from_cache,
    last_lines,
    measuring_folder,
    read_job_file,
    remove_abandoned,
    ssh_server,
    this_server,
)
from tests.unit.app.profiling.conftest import JOB, WriteJob

HERE = ThisServer(("0",), (0,))


def test_job_without_a_command_is_refused(write_job: WriteJob) -> None:
    with pytest.raises(ConfigError, match="command: missing; expected the program that trains"):
        LiveMachine(read_job_file(write_job(JOB)), HERE)


def test_more_cpus_than_there_are_here_are_refused(write_job: WriteJob) -> None:
    here = len(os.sched_getaffinity(0))
    text = JOB.replace("samples", 'command = ["true"]\nsamples', 1)
    text = text.replace("cpus = 24", f"cpus = {here + 1}")
    with pytest.raises(ConfigError, match=rf"server\.cpus: expected at most the {here} that this"):
        this_server(read_job_file(write_job(text)))


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [(None, ("0",)), ("", ("0",)), ("2", ("2",)), ("GPU-7a,5", ("GPU-7a",)), (",2,", ("2",))],
)
def test_job_has_the_first_gpu_of_an_allocation(
    visible: str | None, gpus: tuple[str, ...], write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    text = JOB.replace("cpus = 24", "cpus = 1")
    file = read_job_file(write_job(text.replace("gpus = 8", "gpus = 1")))
    assert this_server(file).gpus == gpus


def test_more_gpus_than_the_allocation_has_are_refused(
    write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    text = JOB.replace("cpus = 24", "cpus = 2").replace("samples", "gpus = 2\nsamples", 1)
    with pytest.raises(ConfigError, match=r"gpus: expected at most the 1 of CUDA_VISIBLE_DEVICES"):
        this_server(read_job_file(write_job(text)))


def test_server_of_a_cluster_has_a_folder_of_its_own_and_tells_every_sample(
    write_job: WriteJob,
) -> None:
    file = read_job_file(write_job(JOB))
    first, second = ssh_server(file, cluster(), None), ssh_server(file, cluster(), "n1")
    assert (first.name, second.name, first.is_here) == ("n0", "n1", False)
    (host,) = second.settings.hosts
    assert (host.name, host.base, host.address) == ("n1", "/srv/shunter-profile", "10.0.0.2")
    assert second.settings.is_limited
    assert second.settings.is_bound
    assert not second.settings.downsamples
    assert isinstance(second, SshServer)
    assert second.settings.cluster_id == "profile"


@pytest.mark.parametrize(
    ("changes", "name", "what"),
    [
        ({}, "n7", r"\[cluster\] has no server 'n7'; it has n0, n1"),
        ({"cpus": 8}, None, r"server\.cpus: expected at most the 8 of n0, not 24"),
        ({"kind": "local"}, None, r"expected 'ssh' to measure a job on one of its"),
    ],
)
def test_server_that_cannot_be_measured_on_is_refused(
    write_job: WriteJob, changes: Mapping[str, Any], name: str | None, what: str
) -> None:
    file = read_job_file(write_job(JOB))
    with pytest.raises(ConfigError, match=what):
        ssh_server(file, cluster(**changes), name)


def cluster(*, cpus: int = 24, kind: str = "ssh") -> LoadedConfig:
    """Return the config of a cluster of two servers."""
    ssh = {
        "root": "/srv/daemon",
        "known_hosts": "/srv/known_hosts",
        "keys": ["/srv/key"],
        "base": "/srv/shunter",
        "hosts": {"n1": {"address": "10.0.0.2"}},
    }
    node = {"name": "n[0-1]", "gpus": 8, "cpus": cpus, "memory_gb": 500}
    return make_config(
        {
            "cluster": {"nodes": [node]},
            "backend": {"kind": kind, kind: ssh if kind == "ssh" else {"root": "/srv/daemon"}},
            "log": {"url": "/srv/log.db"},
        }
    )


def test_rate_is_the_mean_over_mini_batches_told_after_the_warm_up() -> None:
    rate = BatchRate(warm_up_s=2, time_s=2)
    rate.take(0.0, None, None)
    assert not rate.is_new
    before = True
    for at_s, step, batch_s in [(1, 1, 0.9), (2, 5, 0.8), (3, 9, 0.7), (4, 19, 0.1), (5, 21, 0.4)]:
        before = rate.is_measured
        rate.take(at_s, step, batch_s)
        assert rate.is_new
    # From the second 3 on: 10 of 0.1 s and 2 of 0.4 s.
    assert (before, rate.is_measured) == (False, True)
    assert rate.batch_s == pytest.approx(1.8 / 12)


def test_sample_that_tells_nothing_new_does_not_count_again() -> None:
    rate = BatchRate(warm_up_s=0, time_s=1)
    rate.take(0, 3, 0.5)
    rate.take(1, 3, 0.5)
    first = rate.is_new, rate.is_measured
    rate.take(2, 5, 0.5)
    assert (first, rate.is_measured) == ((False, False), True)
    assert rate.batch_s == 0.5


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (b"", ""),
        (b" \n\r\n", ""),
        (b"1\n2\n3\n4\n\n5 \n6", "2 | 3 | 4 | 5 | 6"),
        ("Verlust: 0,3 \u20ac".encode(), "Verlust: 0,3 \u20ac"),
        (b"\x1b]0;title\x07red \x1b[31m", r"\x1b]0;title\x07red \x1b[31m"),
        (b"a\xff\x00b\x9b", r"a\xff\x00b\x9b"),
        ("x\u202ey".encode(), r"x\u202ey"),
        (b"\x00" * 4000, r"\x00" * 1000),
    ],
)
def test_end_of_what_a_job_printed_is_one_line_that_no_terminal_obeys(
    printed: bytes, said: str
) -> None:
    assert last_lines(printed) == said
    assert said.isprintable()


def test_files_of_a_dataset_are_dropped_and_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    file = tmp_path / "part" / "a.bin"
    file.write_bytes(b"a" * 5000)
    drop_from_cache([tmp_path, file])
    assert file.read_bytes() == b"a" * 5000
    with pytest.raises(UsageError, match=r"measuring\.dataset: .*none cannot be read"):
        drop_from_cache([tmp_path / "none"])


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--node", "n0"], "--node names a server of a cluster: name its config with --on"),
        (["--simulated", "--on", "c.toml"], "--simulated measures on no server: leave --on out"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    write_job: WriteJob, words: list[str], what: str
) -> None:
    result = CliRunner().invoke(app, ["profile", str(write_job(JOB)), *words])
    assert result.exit_code == 2
    assert what in result.output


def test_only_folders_that_nobody_holds_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "shunter-profile-left"
    (left / "jobs" / "profile-0" / "1").mkdir(parents=True)
    (tmp_path / "others").mkdir()
    (tmp_path / "shunter-profile-link").symlink_to("others")
    (tmp_path / "shunter-profile-file").touch()
    with measuring_folder() as used:
        (note,) = remove_abandoned()
        assert remove_abandoned() == []
        assert Path(used).is_dir()
    assert note == f"removed {left}, which a `shunter admin profile` that was killed has left"
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["others", "shunter-profile-file", "shunter-profile-link"]
