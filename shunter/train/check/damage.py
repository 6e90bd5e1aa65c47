"""What may come of a checkpoint between two attempts: a part of it is gone, or other ranks read it.

A disk that was full, a copy that was cut off, a folder that somebody has tidied: the next attempt
must see it. Where it resumes what is there without a word, it trains on with something else.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from shunter.train import channel
from shunter.train.check.points import CUT, LOST, RANKS

if TYPE_CHECKING:
    from shunter.train.check.attempts import Attempt

_AS_ONE_OF_TWO = {channel.RANK: "0", channel.WORLD: "2"}


def damaged(damage: str, attempt: Attempt) -> dict[str, str] | None:
    """Damage the checkpoint that an attempt has left.

    Returns:
        What the environment of the next attempt has besides; None: nobody said where it saved.
    """
    told = [each["checkpoint"] for each in attempt.told if each["what"] == "saved"]
    files = [path for path in sorted(Path(told[-1]).rglob("*")) if path.is_file()] if told else []
    if not files:
        return None
    if damage == CUT:
        for path in files:
            os.truncate(path, path.stat().st_size // 2)
    elif damage == LOST:
        max(files, key=lambda path: path.stat().st_size).unlink()
    return _AS_ONE_OF_TWO if damage == RANKS else {}
