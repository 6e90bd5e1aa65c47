"""Hostlists as Slurm prints them: n[1-3,07] and rack[1-2]n[01-04], several with commas.

Their order counts, since the first node of a job is that of its first rank.
"""

import re
from itertools import product

from shunter.errors import SlurmUnknownError

NAMES_MOST = 1 << 17
_NOTHING = frozenset({"", "(null)", "None", "None assigned", "N/A", "n/a"})
_PIECE = re.compile(r"\[([^\][]*)\]|([^,\][]+)|(,)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expanded(hostlist: str) -> tuple[str, ...]:
    """Return the names a hostlist stands for, in its order; of (null) none.

    Raises:
        SlurmUnknownError: it is no hostlist.
    """
    if hostlist in _NOTHING:
        return ()
    names: list[str] = []
    parts: list[list[str]] = []
    at = 0
    for piece in _PIECE.finditer(f"{hostlist},"):
        ranges, text, comma = piece.groups()
        if piece.start() != at or (comma and not parts):
            raise _odd(hostlist)
        at = piece.end()
        if comma:
            names += ["".join(words) for words in product(*parts)]
            parts = []
        else:
            parts.append([text] if ranges is None else _numbers(ranges, hostlist))
        if len(names) > NAMES_MOST:
            raise _odd(hostlist)
    if at != len(hostlist) + 1:
        raise _odd(hostlist)
    return tuple(names)


def _numbers(ranges: str, hostlist: str) -> list[str]:
    texts: list[str] = []
    for part in ranges.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise _odd(hostlist)
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < first + NAMES_MOST:
            raise _odd(hostlist)
        texts += [str(number).zfill(len(found[1])) for number in range(first, last + 1)]
    return texts


def _odd(hostlist: str) -> SlurmUnknownError:
    return SlurmUnknownError(
        f"Slurm names nodes as {hostlist[:80]!r}", "expected a hostlist such as n[1-3,07]"
    )
