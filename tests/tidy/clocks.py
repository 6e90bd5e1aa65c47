"""Who reads time: the clock's port alone, so that the live stack runs on any clock."""

import ast
from collections.abc import Iterator

from tests.tidy.source import Finding, Source, qualified_name

__all__ = ["direct_time"]

PORT = "shunter/clock.py"

OUTSIDE = (
    "shunter/cli",  # in the terminal of a user, and it waits for him
    "shunter/ops/doctor.py",  # looks at this machine, whose clock is one of its subjects
    "shunter/ops/machine_checks.py",  # likewise
    "shunter/run",  # measures how long it computes
    "shunter/backends/node",  # a program of its own, on other machines
    "shunter/client",  # in the program of a user
    "shunter/train",
)
"""What is no part of the live stack."""

READS = frozenset(
    [
        *("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"),
        *("process_time_ns", "thread_time", "thread_time_ns", "time", "time_ns"),
        *("clock_gettime", "clock_gettime_ns", "ctime", "sleep", "uptime_ns"),
    ]
)
FORMATS = {"asctime": 0, "gmtime": 0, "localtime": 0, "strftime": 1}
"""What takes an instant, and reads the clock if it gets none: how many arguments come before it."""

MODULES = frozenset({"time", "shunter.backends.node.ownership"})
DATES = frozenset({"date", "datetime"})
NOW = frozenset({"now", "today", "utcnow"})


def direct_time(source: Source) -> Iterator[Finding]:
    """The live stack asks `shunter.clock` what time it is, and waits through anyio."""
    if source.is_under(*OUTSIDE) or source.path in (PORT, *OUTSIDE):
        return
    if not source.is_under("shunter", "tests/doubles"):
        return
    modules, given = _modules(source), _with_an_instant(source)
    for node in source.nodes(ast.ImportFrom, ast.Attribute):
        name = ""
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            names = [each.name for each in node.names if each.name in READS | {*FORMATS, "*"}]
            name = f"{node.module}.{names[0]}" if names else ""
        elif isinstance(node, ast.Attribute) and id(node) not in given:
            name = _read(node, modules)
        if name:
            yield source.finding(getattr(node, "lineno", 1), f"uses {name}: ask shunter.clock")


def _modules(source: Source) -> set[str]:
    """Return the names under which the file knows modules that read clocks."""
    return {
        alias.asname or alias.name
        for node in source.nodes(ast.Import)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name in MODULES
    }


def _with_an_instant(source: Source) -> set[int]:
    """Return the attributes that are called to format an instant which they are given."""
    return {
        id(node.func)
        for node in source.nodes(ast.Call)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and len(node.args) > FORMATS.get(node.func.attr, len(node.args))
    }


def _read(node: ast.Attribute, modules: set[str]) -> str:
    """Return the name of what reads a clock; the empty string for all else."""
    name = qualified_name(node)
    owner = name.rpartition(".")[0]
    if owner in modules and node.attr in READS | FORMATS.keys():
        return name
    is_date = owner.rpartition(".")[2] in DATES and node.attr in NOW
    return name if is_date or name == "anyio.current_time" else ""
