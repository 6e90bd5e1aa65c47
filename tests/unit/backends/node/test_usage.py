import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node import Usage

TICKS_S = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Proc:
    """A /proc of our own making, with or without lists of children."""

    def __init__(self, path: Path, *, lists_children: bool) -> None:
        self.path, self.lists_children = path, lists_children
        self.children: dict[int, list[int]] = {}

    def put(
        self, pid: int, parent: int, *, cpu_s: float = 0, mb: int = 1, state: str = "R"
    ) -> None:
        fields = ["0"] * 50
        fields[0], fields[1], fields[19] = state, str(parent), "7"
        fields[11], fields[21] = str(int(cpu_s * TICKS_S)), str(-(-mb * 1_000_000 // PAGE))
        (self.path / f"{pid}/task/{pid}").mkdir(parents=True, exist_ok=True)
        (self.path / f"{pid}/stat").write_text(f"{pid} (a ) name) {' '.join(fields)}\n")
        self.children.setdefault(pid, [])
        self.children.setdefault(parent, [])
        self.children[parent] = sorted({*self.children[parent], pid})
        for each in (pid, parent) if self.lists_children else ():
            (self.path / f"{each}/task/{each}").mkdir(parents=True, exist_ok=True)
            listed = " ".join(str(child) for child in self.children[each])
            (self.path / f"{each}/task/{each}/children").write_text(listed)


@pytest.fixture(params=[True, False], ids=["children", "scan"])
def proc(tmp_path: Path, request: pytest.FixtureRequest) -> Proc:
    return Proc(tmp_path, lists_children=request.param)


def test_descendants_count_and_others_do_not(proc: Proc) -> None:
    for pid, parent in ((10, 1), (11, 10), (12, 11), (20, 1)):
        proc.put(pid, parent, mb=5)
    use = Usage(10, str(proc.path)).read(0.0)
    assert use == {"pids": [11, 12], "memory_mb": 10, "cpus": None}


def test_busy_cpus_are_a_mean_between_readings(proc: Proc) -> None:
    usage = Usage(10, str(proc.path))
    proc.put(10, 1)
    proc.put(11, 10, cpu_s=100)
    usage.read(50.0)
    proc.put(11, 10, cpu_s=103)
    proc.put(12, 11, cpu_s=1)  # born in between
    assert usage.read(52.0)["cpus"] == 2.0


def test_process_that_ended_does_not_make_the_use_negative(proc: Proc) -> None:
    usage = Usage(10, str(proc.path))
    proc.put(10, 1)
    proc.put(11, 10, cpu_s=9)
    usage.read(0.0)
    (proc.path / "11" / "stat").unlink()
    assert usage.read(1.0)["cpus"] == 0.0


def test_zombie_is_gone(proc: Proc) -> None:
    proc.put(10, 1)
    proc.put(11, 10, state="Z")
    assert Usage(10, str(proc.path)).read(0.0)["pids"] == []


def test_real_process_is_seen_to_work() -> None:
    script = "import sys; x = bytearray(64 << 20); print(1, flush=True); sys.stdin.read()"
    usage = Usage(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        use: Any = usage.read(0.0)
        assert process.pid in use["pids"]
        assert (use["memory_mb"] or 0) >= 64
        process.communicate()
    after: Any = usage.read(1.0)
    assert process.pid not in after["pids"]
