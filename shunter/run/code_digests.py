"""From which sources decisions are made: one digest over the code of a package.

Code may be changed under the same version. So each term notes the digests of Shunter and of the
package of its policy next to the log: not as an event, because equal runs keep equal digests from
commit to commit.
"""

import os
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from io import FileIO
from operator import attrgetter
from pathlib import Path

from shunter.config import POLICIES

OURS = "shunter"
_MADE = "__pycache__"
_COMPILED = (".pyc", ".pyo", ".so")


def sources_of(policy: str) -> dict[str, str]:
    """Return the digest of each package that decides under a policy, by its name.

    A package that cannot be found, or read, has none.
    """
    point = POLICIES.point(policy)
    names = dict.fromkeys((OURS, point.module.partition(".")[0] if point else ""))
    found = {name: source_digest(name) for name in names if name}
    return {name: digest for name, digest in found.items() if digest}


@cache
def source_digest(package: str) -> str:
    """Return the digest over the files of a package; empty: there is none.

    What Python makes from others does not count.
    """
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return ""
    if spec is None:
        return ""
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    if not places and spec.origin is not None:
        places = [Path(spec.origin)]
    digest = blake2b(digest_size=16)
    try:
        for place in places:
            for name, content in _files(place):
                digest.update(name.encode() + b"\0")
                digest.update(blake2b(content, digest_size=16).digest())
    except OSError:
        return ""
    return digest.hexdigest() if places else ""


def _files(place: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a package in order: their paths in it, and their bytes."""
    if place.is_file():
        yield place.name, place.read_bytes()
    else:
        yield from _files_below(str(place), "")


# By `rglob` and `read_bytes` it would take three times as long.
def _files_below(folder: str, above: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(os.scandir(folder), key=attrgetter("name")):
        if entry.is_dir(follow_symlinks=False):
            if entry.name != _MADE:
                yield from _files_below(entry.path, f"{above}{entry.name}/")
        elif not entry.name.endswith(_COMPILED) and entry.is_file():
            with FileIO(entry.path) as file:
                yield above + entry.name, file.read()
