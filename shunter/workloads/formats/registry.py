"""The known formats. A new one is a module with a `FORMAT`, and one line here.

Modules are imported when their format is asked for: starting up reads no parser.
"""

from importlib import import_module
from typing import Final

from shunter.errors import TraceError
from shunter.workloads.formats.format import TraceFormat

_MODULES: Final = {
    "canonical-csv": "canonical",
    "canonical-jsonl": "canonical_jsonl",
    "philly-csv": "philly_csv",
    "philly-json": "philly_json",
    "tiresias-csv": "simulators.tiresias_csv",
    "blox-csv": "simulators.blox_csv",
    "slurm-sacct": "slurm_sacct",
    "gavel-trace": "simulators.gavel_trace",
    "synergy": "simulators.synergy",
}
_HEAD_LENGTH = 4096


def format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return tuple(_MODULES)


def find_format(name: str) -> TraceFormat:
    """Return the format of that name; TraceError naming the others if there is none."""
    if name not in _MODULES:
        raise TraceError(f"unknown trace format {name!r}: expected one of {', '.join(_MODULES)}")
    found = import_module(f"shunter.workloads.formats.{_MODULES[name]}").FORMAT
    assert isinstance(found, TraceFormat)
    assert found.name == name
    return found


def guess_format(path: str, text: str) -> TraceFormat:
    """Return the format a file begins like; TraceError if it is none of them."""
    head = text[:_HEAD_LENGTH]
    for name in _MODULES:
        if (candidate := find_format(name)).recognises(head):
            return candidate
    line = head.lstrip().partition("\n")[0][:80]
    raise TraceError(
        f"{path}, line 1: cannot tell the format from {line!r}; name it with format = "
        f"{' | '.join(_MODULES)}, or rename the columns (docs/reference/traces.md)"
    )
