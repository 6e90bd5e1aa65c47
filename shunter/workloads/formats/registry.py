"""The known formats: a new one of ours is a module with a `FORMAT`, and one line here.

Other packages add theirs by entry points of the group `shunter.trace_formats`, each a `TraceFormat`
(docs/reference/extending.md). Modules are imported when their format is asked for: starting up
reads no parser.
"""

from importlib import import_module
from typing import Final

from shunter.errors import ConfigError, TraceError
from shunter.plugins import BROUGHT, PEERS, Plugins, brings
from shunter.workloads.formats.format import TraceFormat

_MODULES: Final = {
    "canonical-csv": "canonical",
    "canonical-jsonl": "canonical_jsonl",
    "philly-csv": "philly_csv",
    "philly-json": "philly_json",
    "slurm-sacct": "slurm_sacct",
}
_PLUGINS: Final = Plugins("trace format", "shunter.trace_formats")
_HEAD_LENGTH = 4096


def format_names() -> tuple[str, ...]:
    """Return the names of all formats that are installed, ours first."""
    return (*_MODULES, *(name for name in _PLUGINS.names() if name not in _MODULES))


def is_known_format(name: str) -> bool:
    """Return whether a format of that name is installed, or one of shunter-peers."""
    return name in format_names() or name in BROUGHT[_PLUGINS.group]


def find_format(name: str) -> TraceFormat:
    """Return the format of that name.

    Raises:
        TraceError: there is none; it names the others, or who brings it.
        ConfigError: its package cannot be imported, or gives something else.
    """
    if module := _MODULES.get(name):
        found = import_module(f"shunter.workloads.formats.{module}").FORMAT
        assert isinstance(found, TraceFormat)
        assert found.name == name
        return found
    point = _PLUGINS.point(name)
    if point is None and name in BROUGHT[_PLUGINS.group]:
        raise TraceError(_PLUGINS.missing(name))
    if point is None:
        known = ", ".join(format_names())
        raise TraceError(f"unknown trace format {name!r}: expected one of {known}")
    brought = _PLUGINS.loaded(point)
    if not isinstance(brought, TraceFormat) or brought.name != name:
        raise ConfigError(
            f"trace format {name!r}: expected {point.value} to be a "
            f"shunter.workloads.TraceFormat of that name, not {brought!r}"
        )
    return brought


def guess_format(path: str, text: str) -> TraceFormat:
    """Return the format a file begins like; TraceError if it is none of them."""
    head = text[:_HEAD_LENGTH]
    for name in format_names():
        if (candidate := find_format(name)).recognises(head):
            return candidate
    line = head.lstrip().partition("\n")[0][:80]
    away = [name for name in BROUGHT[_PLUGINS.group] if _PLUGINS.point(name) is None]
    others = f"; if it is {' or '.join(away)}: {brings(PEERS)}" if away else ""
    raise TraceError(
        f"{path}, line 1: cannot tell the format from {line!r}; name it with format = "
        f"{' | '.join(format_names())}, or rename the columns (docs/reference/traces.md){others}"
    )
