"""Where a run is to train: Shunter gives a job GPUs, or units of a CPU server and no GPU."""

from __future__ import annotations

import json
import os
import sys

VISIBLE = "CUDA_VISIBLE_DEVICES"
TURN = "SHUNTER_TURN"
TURN_GPUS = "SHUNTER_TURN_GPUS"
GIVEN = "SHUNTER_GPUS"


def device(*, moves: bool = False) -> str:
    """Return "cuda", or "cpu" where the run was given no GPU or torch can use none.

    Of what Shunter gave, the environment tells; torch is asked only if the script imported it.

    Args:
        moves: a job that shares its GPU in turns is to have its turns on any that is shared on its
            server: all GPUs there become visible, and this returns that of the turn, "cuda:2", say.
            It is to be called before GPUs are used, and `start` with `move`. Only a job of one GPU
            can move; one of several stays on those it was given.

    Raises:
        RuntimeError: it is to move, and GPUs are in use already.
    """
    gpus = turn_gpus()
    if moves and gpus is not None and "," not in os.environ.get(VISIBLE, ","):
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            raise RuntimeError("shunter.train.device(moves=True) comes before GPUs are used")
        os.environ[VISIBLE] = gpus
    moves = moves and gpus_given() == 1
    if moves and gpus is not None and os.environ.get(VISIBLE) == gpus:
        return device_of_turn()
    return _kind()


def turn_gpus() -> str | None:
    """Return all GPUs of the server as CUDA names them; None: there are no turns."""
    return os.environ.get(TURN_GPUS) if os.environ.get(TURN) else None


def gpus_given() -> int:
    """Return how many GPUs this rank was given; 1 where the environment does not say."""
    given = os.environ.get(GIVEN, "")
    return int(given) if given.isdecimal() else 1


def device_of_turn() -> str:
    """Return the device of the turn, where all GPUs of the server are visible."""
    if _kind() == "cpu":
        return "cpu"
    try:
        with open(os.environ[TURN], encoding="utf-8") as file:  # noqa: PTH123  as in turns.py
            mask = int(json.load(file)["mask"])
    except (OSError, ValueError, LookupError, TypeError):
        mask = 1
    return f"cuda:{max(mask & -mask, 1).bit_length() - 1}"


def _kind() -> str:
    visible = os.environ.get(VISIBLE)
    if visible == "":
        return "cpu"
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None:
        return "cuda" if cuda.is_available() else "cpu"
    return "cuda" if visible else "cpu"
