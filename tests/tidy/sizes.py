"""How long a function and a line may be (style guide, section 8)."""

import ast
from collections.abc import Iterator

from tests.tidy.source import Finding, Source

__all__ = ["functions", "lines"]

FUNCTION_LINES_MAX = 70
LINE_LENGTH_MAX = 100

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(source: Source) -> Iterator[Finding]:
    """A function has at most 70 lines, from `def` to its end, docstring included."""
    for function in _functions(source):
        count = (function.end_lineno or function.lineno) - function.lineno + 1
        if count > FUNCTION_LINES_MAX:
            yield source.finding(
                function.lineno,
                f"{function.name} has {count} lines, at most {FUNCTION_LINES_MAX}",
            )


def lines(source: Source) -> Iterator[Finding]:
    """A line of Python has at most 100 characters; the formatter cannot split a string."""
    for number, line in enumerate(source.lines(), start=1):
        if len(line) > LINE_LENGTH_MAX:
            yield source.finding(number, f"{len(line)} characters, at most {LINE_LENGTH_MAX}")


def _functions(source: Source) -> Iterator[Function]:
    for node in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        if isinstance(node, Function):
            yield node
