"""Where a run is to train: Shunter gives a job GPUs, or units of a CPU server and no GPU."""

from __future__ import annotations

import os
import sys

VISIBLE = "CUDA_VISIBLE_DEVICES"


def device() -> str:
    """Return "cuda", or "cpu" where the run was given no GPU or torch can use none.

    Of what Shunter gave, the environment tells; torch is asked only if the script imported it.
    """
    visible = os.environ.get(VISIBLE)
    if visible == "":
        return "cpu"
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None:
        return "cuda" if cuda.is_available() else "cpu"
    return "cuda" if visible else "cpu"
