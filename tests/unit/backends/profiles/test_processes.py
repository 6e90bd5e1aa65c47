import os
import subprocess
import sys
from pathlib import Path

import pytest

from shunter.backends.profiles.processes import Processes

TICKS_S = os.sysconf("SC_CLK_TCK")
PAGES_A_MIB = (1 << 20) // os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "self").mkdir()
    return tmp_path


def put(
    proc: Path,
    pid: int,
    parent: int,
    *,
    cpu_s: float = 0,
    mib: int = 1,
    started: int = 7,
    **more: str,
) -> None:
    fields = ["0"] * 50
    fields[0], fields[1], fields[19] = more.get("state", "R"), str(parent), str(started)
    fields[11], fields[21] = str(int(cpu_s * TICKS_S)), str(mib * PAGES_A_MIB)
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (a ) name) {' '.join(fields)}\n")


def test_descendants_count_and_others_do_not(proc: Path) -> None:
    for pid, parent in ((10, 1), (11, 10), (12, 11), (20, 1)):
        put(proc, pid, parent, mib=5)
    use = Processes(10, proc).read(0.0)
    assert use is not None
    assert (use.pids, use.memory_mb, use.cpus) == ((10, 11, 12), 15, None)


def test_busy_cpus_are_a_mean_between_readings(proc: Path) -> None:
    processes = Processes(10, proc)
    put(proc, 10, 1, cpu_s=100)
    processes.read(50.0)
    put(proc, 10, 1, cpu_s=103)
    put(proc, 11, 10, cpu_s=1)  # born in between
    use = processes.read(52.0)
    assert use is not None
    assert use.cpus == 2.0


def test_process_that_ended_does_not_make_the_use_negative(proc: Path) -> None:
    processes = Processes(10, proc)
    put(proc, 10, 1)
    put(proc, 11, 10, cpu_s=9)
    processes.read(0.0)
    (proc / "11" / "stat").unlink()
    use = processes.read(1.0)
    assert use is not None
    assert use.cpus == 0.0


def test_reused_process_id_is_another_process(proc: Path) -> None:
    processes = Processes(10, proc)
    put(proc, 10, 1, started=7)
    assert processes.read(0.0) is not None
    put(proc, 10, 1, started=8)
    assert processes.read(1.0) is None


def test_zombie_is_gone(proc: Path) -> None:
    put(proc, 10, 1, state="Z")
    assert Processes(10, proc).read(0.0) is None


def test_real_process_is_seen_to_work() -> None:
    script = "import sys; x = bytearray(64 << 20); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        use = Processes(process.pid).read(0.0)
        assert use is not None
        assert use.memory_mb >= 64
        process.communicate()
    assert Processes(process.pid).read(1.0) is None
