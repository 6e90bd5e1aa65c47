"""Do two runs have equal bits, without any flag and with those of PyTorch? At what price?"""

import hashlib
import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.gpu.machine import Machine

MODELS, STEPS = ("conv", "gpt-small"), 30
FLAGS = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def measure(here: Machine) -> dict[str, Any]:
    """Train each model twice in both ways, each time in a process of its own."""
    here.needs_gpu()
    found: dict[str, Any] = {}
    for model in MODELS:
        ways = {}
        for way in ("no flags", "flags"):
            runs = [_run(here, model, with_flags=way == "flags") for _ in range(2)]
            ways[way] = {
                "equal": "digest" in runs[0] and runs[0].get("digest") == runs[1].get("digest"),
                "batch_s": runs[-1].get("batch_s"),
                **({"refused": runs[0]["refused"]} if "refused" in runs[0] else {}),
            }
        found[model] = ways
    words = "; ".join(
        f"{model}: {way} {'equal bits' if each['equal'] else 'OTHER BITS'}"
        for model, ways in found.items()
        for way, each in ways.items()
    )
    return {"models": found, "steps": STEPS, "in words": words}


def _run(here: Machine, model: str, *, with_flags: bool) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.gpu.determinism", model, here.device]
    words += ["flags" if with_flags else "none", "small" if here.rehearses else "whole"]
    own = {"OMP_NUM_THREADS": "1", **(FLAGS if with_flags else {})}
    ran = subprocess.run(
        words, env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        return {"refused": ran.stderr.strip().splitlines()[-1][-200:]}
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Be one run: print a digest of what it ends with."""
    import time

    import torch

    from benchmarks.gpu.job import Task

    model, device, flags, size = sys.argv[1:]
    if flags == "flags":
        torch.use_deterministic_algorithms(mode=True)
        torch.backends.cudnn.benchmark = False
    task = Task(model, device, is_small=size == "small")
    begun_s = 0.0
    for number in range(STEPS):
        if number == STEPS // 3:
            begun_s = time.monotonic()
        task.step().item()
    batch_s = (time.monotonic() - begun_s) / (STEPS - STEPS // 3)
    digest = hashlib.sha256()
    for each in task.model.state_dict().values():
        digest.update(each.cpu().numpy().tobytes())
    print(json.dumps({"digest": digest.hexdigest(), "batch_s": round(batch_s, 5)}))


if __name__ == "__main__":
    main()
