"""The speed of a job that prints a progress bar, for jobs without the SDK.

Read are the last step and rate that tqdm and its like print: `450/1000 [00:10<00:12, 43.2it/s]`,
or `2.31s/it` where a step takes longer than a second. Bars are drawn over themselves, so the last
one on the last line counts. It is a guess: a bar over files or an evaluation looks the same.
"""

import os
import re
from pathlib import Path

__all__ = ["printed_speed"]

TAIL_BYTES = 4096
_BAR = re.compile(r"(?:(\d+)/\d+ \[[^\]\r\n]*?)?\b(\d+(?:\.\d+)?)(it/s|s/it)\b")


def printed_speed(path: Path) -> tuple[int | None, float | None]:
    """Return the last step and mini-batch seconds in a file, None where absent."""
    found = list(_BAR.finditer(_tail(path)))
    if not found:
        return None, None
    step, number, unit = found[-1].groups()
    rate = float(number)
    if not rate:
        return None, None
    return int(step) if step else None, round(rate if unit == "s/it" else 1 / rate, 9)


def _tail(path: Path) -> str:
    """Return the end of a file, whatever its length; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
