"""Configs, traces and logs that nobody means: one line and exit 2, in bounded time and memory.

Method: the real command in a process of its own, which may take two seconds of CPU more than a
start does, and 1.5 GB of address space.
"""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CONFIG = """\
schema = 1
[cluster]
[[cluster.nodes]]
name = "n[1-2]"
gpus = 4
type = "v100"
[workload.generate]
kind = "philly-like"
jobs = 20
[policy]
name = "las"
[log]
url = "none:"
"""
MADE = '[workload.generate]\nkind = "philly-like"\njobs = 20'
GAVEL = '[workload]\ntrace = "{}"\nformat = "gavel-trace"\nthroughputs = "builtin:gavel"'
CPU_S = 20
MEMORY = 1_500_000_000


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def told(*words: str, folder: Path) -> str:
    """Return the one line a command fails with."""
    done = subprocess.run(
        [sys.executable, "-m", "shunter", *words],
        cwd=folder,
        env={"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": "", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=limited,
    )
    assert done.returncode == 2, (done.returncode, done.stderr[-2000:])
    lines = done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert 1 <= len([line for line in lines if line.startswith("error")]) <= 1, done.stderr
    assert len(done.stderr) < 2000
    return done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace('name = "las"', 'name = ["las"]'), "policy.name"),
        (lambda text: text.replace('"las"', '"las"\nround = 1e308'), "policy.round"),
        (lambda text: text.replace('"las"', '"las"\nround = "' + "9" * 400 + 'd"'), "policy.round"),
        (lambda text: text.replace(MADE, f'[workload]\ntrace = "{"x" * 300}"'), "too long"),
        (lambda text: text + "x = " + "[" * 900 + "]" * 900, "nested too deeply"),
        (lambda text: text.replace("n[1-2]", "gpu[1-100000000]"), "100,000 servers"),
        (lambda text: text.replace("n[1-2]", "gpu[1-9999]x[1-9999]"), "100,000 servers"),
        (lambda text: text.replace(MADE, GAVEL.format("/dev/zero")), "no file, but a device"),
    ],
)
def test_config_that_nobody_means(change: Callable[[str], str], said: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(change(CONFIG), encoding="utf-8")
    assert said in told("simulate", "a.toml", folder=tmp_path)


def test_device_is_no_config(tmp_path: Path) -> None:
    assert "no file, but a device" in told("simulate", "/dev/zero", folder=tmp_path)


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ("\n" * 2_000_000, "is empty"),
        (
            "\n" * 1_000_000
            + "ResNet-18 (batch size 64)\tnone\tnone\t-s\t0\t5000\t1\t1\t1e308\t0\n",
            "SLO",
        ),
    ],
)
def test_trace_that_nobody_means(trace: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "j.trace").write_text(trace, encoding="utf-8")
    config = CONFIG.replace(MADE, GAVEL.format("j.trace") + '\nbase_type = "v100"')
    (tmp_path / "a.toml").write_text(config, encoding="utf-8")
    assert said in told("simulate", "a.toml", folder=tmp_path)
