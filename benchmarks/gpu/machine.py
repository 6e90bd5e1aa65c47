"""The machine that the parts measure: its GPUs by NVML, and where jobs train."""

import importlib
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# By its chapter, since a machine with a GPU may have no more than Python and PyTorch.
_gpus = importlib.import_module("shunter.backends.node.host.gpus")
Readings = tuple[list[Any], Any]
nvml_gpus: Callable[[], Readings] = _gpus.nvml_gpus
program_gpus: Callable[[], Readings] = _gpus.program_gpus

NO_GPU = "no GPU"


class NotMeasured(Exception):  # noqa: N818  no fault: it says why a figure is not there
    """Something that a part needs is not here."""


@dataclass(frozen=True)
class Machine:
    """What the parts have.

    Attributes:
        device: "cuda"; "cpu" in a rehearsal, where models are tiny and times short; "" where
            neither is here.
        scratch: a folder on the disk that checkpoints go to.
        about: the GPU and its driver, in words.
    """

    device: str
    scratch: Path
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def rehearses(self) -> bool:
        """Whether the figures say nothing."""
        return self.device == "cpu"

    def needs_gpu(self) -> None:
        """Raise NotMeasured where no job could train."""
        if not self.device:
            raise NotMeasured(NO_GPU)

    def needs_cuda(self) -> None:
        """Raise NotMeasured where there is no real GPU."""
        if self.device != "cuda":
            raise NotMeasured(NO_GPU)


def machine(*, rehearses: bool) -> Machine:
    """Return this machine."""
    scratch = Path(tempfile.gettempdir())
    return Machine("cpu" if rehearses else _device(), scratch, _about())


def _device() -> str:
    try:
        import torch
    except ImportError:
        return ""
    return "cuda" if torch.cuda.is_available() else ""


def _about() -> dict[str, Any]:
    found, _ = nvml_gpus()
    if not found:
        return {"gpu": NO_GPU}
    return {
        "gpu": found[0].name,
        "gpus": len(found),
        "gpu_memory_mb": found[0].memory_total_mb,
        "driver": queried("driver_version"),
    }


def queried(what: str) -> str:
    """Return what nvidia-smi says of the first GPU; empty if it says nothing."""
    words = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits"]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.partition("\n")[0].strip() if not ran.returncode else ""


def memory_by_pid(pid: int) -> int:
    """Return how much GPU memory a process holds by NVML, in MB; 0 if NVML knows none.

    In a container NVML may name processes by the numbers that they have outside; then it is what
    the GPU has in use altogether.
    """
    found, _ = nvml_gpus()
    known = [each.memory_by_pid or {} for each in found]
    if any(pid in each for each in known):
        return sum(each.get(pid, 0) for each in known)
    return 0


def memory_in_use() -> int:
    """Return how much memory of the first GPU is in use, in MB."""
    found, _ = nvml_gpus()
    return (found[0].memory_mb or 0) if found else 0
