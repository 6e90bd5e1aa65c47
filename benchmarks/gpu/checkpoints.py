"""CUDA's own checkpoints of a process, as a further way to suspend a job without any code in it.

    lock, checkpoint      the driver copies the GPU's memory into the host's, and frees it
    restore, unlock       and back

By cuda-bindings (CUDA 12.8 or later). How many seconds each takes by GB, and what refuses.
"""

import subprocess
import sys
import time
from typing import Any

from benchmarks.gpu.machine import Machine, NotMeasured, memory_in_use

SIZES_GB = (1, 4, 16)
LOCK_MS = 10_000
HOLDS = """
import sys, time, torch
kind, size = sys.argv[1], int(float(sys.argv[2]) * 1e9)
held = torch.full((size,), 7, dtype=torch.uint8, device="cuda")
others = []
if kind == "pinned":
    others.append(torch.empty(1 << 28, dtype=torch.uint8).pin_memory())
if kind == "graph":
    graph = torch.cuda.CUDAGraph()
    small = torch.ones(8, device="cuda")
    with torch.cuda.graph(graph):
        small += 1
    others.append(graph)
if kind == "shared":
    others.append(held.untyped_storage()._share_cuda_())
torch.cuda.synchronize()
print("up", flush=True)
for line in sys.stdin:
    print(bool((held[::4099] == 7).all().item()), flush=True)
"""
KINDS = ("plain", "pinned", "graph", "shared")


def measure(here: Machine) -> dict[str, Any]:
    """Checkpoint and restore processes of several sizes and kinds."""
    here.needs_cuda()
    driver = binding()
    sizes = {f"{size} GB": _tried(driver, "plain", size) for size in SIZES_GB}
    kinds = {kind: _tried(driver, kind, 1) for kind in KINDS[1:]}
    done = [each for each in sizes.values() if "refused" not in each]
    refused = [f"{kind}: {each['refused']}" for kind, each in kinds.items() if "refused" in each]
    words = "it refuses everything"
    if done:
        last = done[-1]
        words = f"{last['checkpoint_s_per_gb']:.3f} s a GB out, {last['restore_s_per_gb']:.3f} in"
    words += f"; refused: {'; '.join(refused)}" if refused else "; nothing tried was refused"
    return {"sizes": sizes, "kinds": kinds, "in words": words}


def binding() -> Any:
    """Return the driver's functions.

    Raises:
        NotMeasured: they are not here.
    """
    try:
        from cuda.bindings import driver
    except ImportError:
        raise NotMeasured("cuda-bindings is not installed: pip install cuda-bindings") from None
    if not hasattr(driver, "cuCheckpointProcessLock"):
        raise NotMeasured("this cuda-bindings knows no checkpoints: 12.8 or later does")
    (code,) = driver.cuInit(0)
    if code:
        raise NotMeasured(f"the driver does not start: {code.name}")
    return driver


class RefusedError(Exception):
    """The driver refuses a step."""


def _tried(driver: Any, kind: str, size_gb: float) -> dict[str, Any]:
    before_mb = memory_in_use()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, kind, str(size_gb)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as job:
        try:
            assert job.stdin is not None
            assert job.stdout is not None
            if job.stdout.readline() != "up\n":
                return {"refused": "the process could not be prepared"}
            held_mb = left_mb = memory_in_use() - before_mb
            took: dict[str, float] = {}
            for name, arguments in _steps(driver):
                begun_s = time.monotonic()
                code = getattr(driver, f"cuCheckpointProcess{name}")(job.pid, arguments)[0]
                took[name] = time.monotonic() - begun_s
                if code:
                    return {"refused": f"{name} says {code.name}"}
                if name == "Checkpoint":
                    left_mb = memory_in_use() - before_mb
            job.stdin.write("look\n")
            job.stdin.flush()
            is_whole = job.stdout.readline() == "True\n"
        finally:
            job.kill()
    held_gb = held_mb * (1 << 20) / 1e9 or size_gb
    return {
        "gpu_memory_mb": {"before": held_mb, "checkpointed": left_mb},
        "lock_s": round(took["Lock"], 4),
        "checkpoint_s": round(took["Checkpoint"], 4),
        "restore_s": round(took["Restore"], 4),
        "unlock_s": round(took["Unlock"], 4),
        "checkpoint_s_per_gb": round(took["Checkpoint"] / held_gb, 4),
        "restore_s_per_gb": round(took["Restore"] / held_gb, 4),
        "memory_is_as_before": is_whole,
    }


def _steps(driver: Any) -> "list[tuple[str, Any]]":
    lock = driver.CUcheckpointLockArgs()
    lock.timeoutMs = LOCK_MS
    return [("Lock", lock), ("Checkpoint", None), ("Restore", None), ("Unlock", None)]
