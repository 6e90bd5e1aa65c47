"""What the shell that submits has in its environment, and what a job gets of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from shunter.errors import UsageError
from tests.live.api.serving import PATIENCE_S, Served, environment

pytestmark = pytest.mark.live

OF_ANOTHER_JOB = {
    "SLURM_JOB_ID": "99",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "3",
    "SBATCH_ACCOUNT": "lab",
    "PMI_RANK": "3",
    "PMIX_RANK": "3",
    "HIP_VISIBLE_DEVICES": "7",
    "ROCR_VISIBLE_DEVICES": "3",
    "NVIDIA_VISIBLE_DEVICES": "7",
    "GPU_DEVICE_ORDINAL": "7",
}


def submitted(shared: Served, *words: str, **variables: str) -> dict[str, str]:
    """Submit `env`; return the variables that the job had."""
    found = shared.run("submit", "--parsable", *words, "--", "env", **variables)
    assert found.returncode == 0, found.stderr
    job_id = found.stdout.strip()
    assert shared.handle(job_id).result(PATIENCE_S) == 0
    lines = shared.run("logs", "--stdout", job_id).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def with_bytes(
    shared: Served, *words: bytes, **variables: bytes
) -> "subprocess.CompletedProcess[str]":
    """Run `shunter submit` with words and variables that need not be text."""
    given = {name.encode(): value.encode() for name, value in environment().items()}
    given[b"SHUNTER_URL"] = shared.url.encode()
    given.update({name.encode(): value for name, value in variables.items()})
    begins = [each.encode() for each in (sys.executable, "-m", "shunter")]
    return subprocess.run(
        [*begins, *words],
        env=given,
        cwd=shared.root,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("more", [(), (b"--dry-run",)])
def test_byte_in_a_variable_names_it_in_one_line(shared: Served, more: tuple[bytes, ...]) -> None:
    found = with_bytes(shared, b"submit", *more, b"--", b"true", STRANGE=b"a\xff")
    assert found.returncode == 2
    assert "environment variable STRANGE" in found.stderr
    assert "--export none" in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_byte_in_a_variable_is_no_matter_where_it_is_not_passed_on(shared: Served) -> None:
    words = (b"submit", b"--export", b"none", b"--", b"true")
    assert with_bytes(shared, *words, STRANGE=b"a\xff").returncode == 0


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ((b"submit", b"--", b"echo", b"a\xff"), "command.1"),
        ((b"submit", b"-D", b"/tmp/a\xff", b"--", b"true"), "directory"),
        ((b"submit", b"-J", b"a\xff", b"--", b"true"), "name"),
        ((b"submit", b"-e", b"A=\xff", b"--", b"true"), "environment variable A"),
        ((b"submit", b"--dedupe-key", b"\xff", b"--", b"true"), "key"),
        ((b"show", b"j\xff"), "the id"),
        ((b"why", b"j\xff"), "the id"),
        ((b"queue", b"--state", b"\xff"), "state"),
        ((b"cancel", b"j\xff"), "the id"),
    ],
)
def test_byte_in_an_argument_is_refused_in_one_line(
    shared: Served, words: tuple[bytes, ...], where: str
) -> None:
    found = with_bytes(shared, *words)
    assert (found.returncode, len(found.stderr.splitlines())) == (2, 1), found.stderr
    assert f"{where} holds bytes that are no UTF-8 text" in found.stderr
    assert "Traceback" not in found.stderr


def test_folder_whose_name_is_no_text_is_refused(shared: Served) -> None:
    folder = bytes(shared.root) + b"/f\xff"
    Path(folder.decode("utf-8", "surrogateescape")).mkdir()
    code = "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
    words = [sys.executable.encode(), b"-m", b"shunter", b"submit", b"--", b"true"]
    found = subprocess.run(
        [sys.executable.encode(), b"-c", code.encode(), folder, *words],
        env=environment(SHUNTER_URL=shared.url),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (found.returncode, len(found.stderr.splitlines())) == (2, 1), found.stderr
    assert "directory holds bytes" in found.stderr


def test_client_in_python_refuses_what_is_no_text(shared: Served) -> None:
    with shared.client() as client, pytest.raises(UsageError, match="environment variable A"):
        client.submit(["true"], environment={"A": "\udcff"})


def test_exported_functions_of_the_shell_pass(shared: Served) -> None:
    line = (
        "ml() { echo hi; }; my-own.f() { echo there; }; export -f ml my-own.f; "
        f"exec {sys.executable} -m shunter submit --parsable -J f -- bash -c 'ml; my-own.f'"
    )
    found = subprocess.run(
        ["bash", "-c", line],
        env=environment(SHUNTER_URL=shared.url),
        cwd=shared.root,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    job_id = found.stdout.strip()
    assert shared.handle(job_id).result(PATIENCE_S) == 0
    assert shared.run("logs", "--stdout", job_id).stdout == "hi\nthere\n"


def test_ranks_and_devices_of_another_job_are_not_passed_on(shared: Served) -> None:
    had = submitted(shared, **OF_ANOTHER_JOB, MINE="1")
    assert sorted(OF_ANOTHER_JOB.keys() & had.keys()) == []
    assert had["MINE"] == "1"


def test_what_export_names_is_passed_on(shared: Served) -> None:
    had = submitted(shared, "--export", "all,SLURM_JOB_ID", **OF_ANOTHER_JOB, MINE="1")
    assert (had["SLURM_JOB_ID"], had["MINE"], "SLURM_PROCID" in had) == ("99", "1", False)


def test_names_alone_are_all_that_is_passed_on(shared: Served) -> None:
    had = submitted(shared, "--export", "PMI_RANK,MINE", **OF_ANOTHER_JOB, MINE="1", OTHER="2")
    assert (had["PMI_RANK"], had["MINE"], "OTHER" in had) == ("3", "1", False)


def test_name_that_is_no_variable_here_is_refused(shared: Served) -> None:
    found = shared.run("submit", "--export", "all,NOT_SET_HERE", "--", "true")
    assert (found.returncode, "--export NOT_SET_HERE" in found.stderr) == (2, True)


@pytest.mark.parametrize("address", ["unix", "tcp"])
def test_submission_that_is_too_large_names_its_largest_variables(
    shared: Served, address: str
) -> None:
    large = {f"LARGE_{number}": "x" * (100_000 + number) for number in range(12)}
    if address == "tcp":
        large.update(SHUNTER_URL=shared.tcp, SHUNTER_TOKEN=shared.token)
    words = [sys.executable, "-m", "shunter", "submit", "--", "true"]
    found = subprocess.run(
        words,
        env={**environment(SHUNTER_URL=shared.url), **large},
        cwd=shared.root,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (found.returncode, len(found.stderr.splitlines())) == (2, 1), found.stderr
    assert "LARGE_11 (100,011 bytes), LARGE_10" in found.stderr
    assert "--export none" in found.stderr


def test_dos_line_ends_are_refused_with_the_line(shared: Served) -> None:
    script = shared.root / "dos.sh"
    script.write_bytes(b"#!/bin/bash\n#SHUNTER --gpus 1\necho hi\r\nexit 0\r\n")
    found = shared.run("submit", "dos.sh")
    assert (found.returncode, found.stdout) == (2, "")
    assert "dos.sh:3: the line ends with CR LF" in found.stderr
