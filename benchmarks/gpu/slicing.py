"""Taking turns by SIGSTOP, where memory stays held, against a suspension, which frees it.

What a stopped job leaves of another one's speed, how soon each goes on, and what memory it keeps.
"""

import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.jobs import Job
from benchmarks.gpu.machine import Machine, memory_in_use

STOPPED, OTHER = "gpt-124m", "conv"
RATE_S, TURNS = 6.0, 5


def measure(here: Machine) -> dict[str, Any]:
    """Stop one job while another trains, five times, then suspend and resume it."""
    here.needs_gpu()
    rate_s = 0.5 if here.rehearses else RATE_S
    with tempfile.TemporaryDirectory(dir=here.scratch, prefix="shunter-gpu-") as name:
        folder = Path(name)
        with Job(here, folder / "other", OTHER) as other:
            other.wait_steps(20)
            alone = other.rate(rate_s)
            before_mb = memory_in_use()
            with Job(here, folder / "stopped", STOPPED, takes_turns=True) as job:
                job.wait_steps(10)
                held_mb = memory_in_use() - before_mb
                ends, begins, stopped, kept_mb = [], [], 0.0, 0
                for _ in range(TURNS):
                    ends.append(job.end_turn())
                    job.signal(signal.SIGSTOP)
                    time.sleep(0.3)
                    stopped = other.rate(rate_s / 2)
                    kept_mb = memory_in_use() - before_mb
                    steps, begun_s = len(job.steps()), time.monotonic()
                    job.begin_turn()
                    job.signal(signal.SIGCONT)
                    job.wait_steps(steps + 1)
                    begins.append(job.steps()[steps] - begun_s)
                batch_s = job.batch_s()
                asked_s = job.ask()
                job.process.wait(120)
                suspend_s = time.monotonic() - asked_s
            with Job(here, folder / "stopped", STOPPED, attempt=2) as job:
                job.wait_steps(1)
                resume_s = job.steps()[0] - job.begun_s
    stop_s, continue_s = _median(ends), max(0.0, _median(begins) - batch_s)
    found: dict[str, Any] = {
        "stopped": STOPPED,
        "other": OTHER,
        "batch_s": round(batch_s, 5),
        "gpu_memory_mb": {"in its turn": held_mb, "stopped": kept_mb},
        "left_of_other": round(stopped / alone, 4),
        "stop_s": round(stop_s, 5),
        "continue_s": round(continue_s, 5),
        "suspend_s": round(suspend_s, 3),
        "resume_s": round(resume_s, 3),
    }
    found["in words"] = (
        f"stopped it holds {kept_mb} MB and leaves {found['left_of_other']:.3f} of the other's "
        f"speed; to stop and go on takes {stop_s + continue_s:.3f} s, to suspend "
        f"and resume {suspend_s + resume_s:.1f} s"
    )
    return found


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
