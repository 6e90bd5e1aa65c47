"""Is the GPU that a job sees the one that was meant: by index, by UUID, and in PCI order?"""

import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.gpu.machine import Machine, NotMeasured, nvml_gpus

SEES = """
import json, torch
count = torch.cuda.device_count()
found = torch.cuda.get_device_properties(0) if count else None
uuid = str(getattr(found, "uuid", ""))
print(json.dumps({"count": count, "uuid": uuid, "name": getattr(found, "name", "")}))
"""


def measure(here: Machine) -> dict[str, Any]:
    """Make each GPU visible in each way, and compare what torch sees of it with NVML."""
    here.needs_cuda()
    gpus, _ = nvml_gpus()
    wrong = []
    for gpu in gpus:
        ways = {"by index, PCI order": str(gpu.index), "by UUID": str(gpu.uuid)}
        for way, visible in ways.items():
            seen = sees(visible)
            if seen["count"] != 1 or not _is_same(str(gpu.uuid), seen["uuid"]):
                wrong.append(f"GPU {gpu.index} {way}: torch sees {seen}")
    hidden = sees("")
    if hidden["count"]:
        wrong.append(f"an empty value hides nothing: torch sees {hidden['count']}")
    words = "; ".join(wrong) or f"{len(gpus)} GPUs are the ones that were meant, in both ways"
    return {"gpus": len(gpus), "wrong": wrong, "in words": words}


def sees(visible: str) -> dict[str, Any]:
    """Return what torch sees in a process of its own.

    Raises:
        NotMeasured: torch cannot say.
    """
    own = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    ran = subprocess.run(
        [sys.executable, "-c", SEES],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise NotMeasured(f"torch fails: {ran.stderr.strip()[-200:]}")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def _is_same(uuid: str, seen: str) -> bool:
    """Say whether NVML's UUID is torch's, which has no "GPU-" before it; older ones say none."""
    return not seen or uuid.lower().endswith(seen.lower())
