"""The sizes at which to stop (style guide, section 8), and the lengths of lines.

A size is raised by nobody: split along a noun instead.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.tidy.source import Finding, Source

__all__ = ["files", "folders", "functions", "lines", "parameters"]

FILE_LINES_MAX = 400
TEST_FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 60
PARAMETERS_MAX = 8
FOLDER_FILES_MAX = 15
LINE_LENGTH_MAX = 100

Function = ast.FunctionDef | ast.AsyncFunctionDef


def files(source: Source) -> Iterator[Finding]:
    """A Python file has at most 400 lines, a test 800."""
    limit = TEST_FILE_LINES_MAX if source.is_under("tests") else FILE_LINES_MAX
    count = len(source.lines())
    if count > limit:
        yield source.finding(limit + 1, f"{count} lines, at most {limit}: split along a noun")


def functions(source: Source) -> Iterator[Finding]:
    """A function has at most 60 lines, from `def` to its end, docstring included."""
    for function in _functions(source):
        count = (function.end_lineno or function.lineno) - function.lineno + 1
        if count > FUNCTION_LINES_MAX:
            yield source.finding(
                function.lineno,
                f"{function.name} has {count} lines, at most {FUNCTION_LINES_MAX}",
            )


def parameters(source: Source) -> Iterator[Finding]:
    """A function takes at most 8 parameters; `self` and `cls` do not count."""
    for function in _functions(source):
        count = len(_parameter_names(function))
        if count > PARAMETERS_MAX:
            yield source.finding(
                function.lineno,
                f"{function.name} takes {count} parameters, at most {PARAMETERS_MAX}",
            )


def lines(source: Source) -> Iterator[Finding]:
    """A line of Python has at most 100 characters; the formatter cannot split a string."""
    for number, line in enumerate(source.lines(), start=1):
        if len(line) > LINE_LENGTH_MAX:
            yield source.finding(number, f"{len(line)} characters, at most {LINE_LENGTH_MAX}")


def folders(sources: Iterable[Source]) -> Iterator[Finding]:
    """A folder of code holds at most 15 Python files."""
    counts = Counter(source.folder for source in sources if source.is_python)
    for folder, count in sorted(counts.items()):
        if count > FOLDER_FILES_MAX:
            yield Finding(folder, 1, f"{count} Python files, at most {FOLDER_FILES_MAX}")


def _functions(source: Source) -> Iterator[Function]:
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            yield node


def _parameter_names(function: Function) -> list[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [rest for rest in (arguments.vararg, arguments.kwarg) if rest is not None]
    return [argument.arg for argument in every if argument.arg not in {"self", "cls"}]
