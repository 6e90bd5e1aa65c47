"""The name of a job whose owner gave it none: that of the script it runs, however that is begun."""

from collections.abc import Sequence
from pathlib import PurePath

__all__ = ["name_of"]

NAME_MOST = 40
SUFFIXES = frozenset((".py", ".sh", ".bash", ".zsh", ".jl", ".r", ".pl", ".rb", ".lua", ".js"))


def name_of(command: Sequence[str]) -> str:
    """Return the name of the script or module that a command runs.

    `torchrun --nproc-per-node 2 train.py --lr 1` is `train.py`, `python -m shop.train` is
    `shop.train`; a command without either is called by its program.
    """
    words = list(command)
    for place, word in enumerate(words):
        if place and words[place - 1] == "-m" and not word.startswith("-"):
            found = word
        elif PurePath(word).suffix.lower() in SUFFIXES and not word.startswith("-"):
            found = PurePath(word).name
        else:
            continue
        if "\n" not in found:
            return found[:NAME_MOST]
    return PurePath(words[0]).name[:NAME_MOST]
