"""What it costs to suspend a model of 1.3 billion parameters, and to go on with it.

Weights and both moments of AdamW are in single precision: 12 bytes a parameter, 16 GB.
"""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.jobs import EXIT_SUSPENDED, Job, JobFailedError
from benchmarks.gpu.machine import Machine, NotMeasured, memory_in_use

MODEL, STEPS = "gpt-1.3b", 5
GB = 1e9
SPARE_GB = 45  # two checkpoints, and room


def measure(here: Machine) -> dict[str, Any]:
    """Train, suspend, resume."""
    here.needs_gpu()
    free_gb = shutil.disk_usage(here.scratch).free / GB
    if not here.rehearses and free_gb < SPARE_GB:
        raise NotMeasured(f"{here.scratch} has {free_gb:.0f} GB free; {SPARE_GB} are needed")
    with tempfile.TemporaryDirectory(dir=here.scratch, prefix="shunter-gpu-") as name:
        folder = Path(name)
        before_mb = memory_in_use()
        found = _suspended(here, folder, before_mb)
        found.update(_resumed(here, folder))
    size_gb = found["saved_gb"]
    found["suspend_s_per_gb"] = round(found["suspend_s"] / size_gb, 4)
    found["resume_s_per_gb"] = round(found["load_s"] / size_gb, 4)
    found["in words"] = (
        f"{found['parameters'] / 1e9:.2f} billion parameters, {size_gb:.2f} GB: "
        f"suspended in {found['suspend_s']:.1f} s, loaded in {found['load_s']:.1f} s"
    )
    return found


def _suspended(here: Machine, folder: Path, before_mb: int) -> dict[str, Any]:
    with Job(here, folder, MODEL) as job:
        built = job.said("built")
        job.wait_steps(STEPS)
        held_mb = memory_in_use() - before_mb
        steady_mb = job.peak_host_mb()
        batch_s = job.batch_s()
        asked_s = job.ask()
        job.wait(lambda: job.hears("acknowledged"), "its answer")
        answered_s = time.monotonic()
        peak_mb = steady_mb
        while job.process.poll() is None:
            peak_mb = max(peak_mb, job.peak_host_mb())
            time.sleep(0.01)
        left_s = time.monotonic()
        job.hears("saved")
        saved = [told for told in job.told if told["what"] == "saved"]
        if job.process.returncode != EXIT_SUSPENDED or not saved:
            raise JobFailedError(f"it did not save: {job.process.returncode}, {job.errors()}")
        while memory_in_use() > before_mb + 200 and time.monotonic() < left_s + 10:
            time.sleep(0.01)
        free_s = time.monotonic()
    return {
        "model": MODEL,
        "parameters": built["parameters"],
        "batch_s": round(batch_s, 4),
        "gpu_memory_mb": held_mb,
        "host_memory_mb": {"training": steady_mb, "saving": peak_mb},
        "saved_gb": saved[-1]["bytes"] / GB,
        "wait_s": round(answered_s - asked_s, 3),
        "suspend_s": round(left_s - answered_s, 3),
        "gpu_free_s": round(free_s - left_s, 3),
    }


def _resumed(here: Machine, folder: Path) -> dict[str, Any]:
    with Job(here, folder, MODEL, attempt=2) as job:
        job.wait_steps(1)
        built, started = job.said("built"), job.said("started")
        first_s = job.steps()[0]
        return {
            "resumed_at_step": started["resumed"],
            "import_s": round(built["begun_s"] - job.begun_s, 3),
            "build_s": round(built["at_s"] - built["begun_s"], 3),
            "load_s": round(started["at_s"] - built["at_s"], 3),
            "first_batch_s": round(first_s - started["at_s"], 3),
            "resume_s": round(first_s - job.begun_s, 3),
        }
