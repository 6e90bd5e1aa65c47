"""A failure is reported even if an entry of its traceback has no line."""

import sys
from contextlib import nullcontext
from types import FrameType, TracebackType

import pytest

from tests.tracebacks import line_of, with_lines


def lineless() -> TracebackType:
    """Return an entry of this function at an instruction that has no line."""
    with nullcontext(), nullcontext():
        frame: FrameType = sys._getframe()
    positions = enumerate(frame.f_code.co_positions())
    places = [2 * place for place, (line, *_) in positions if line is None]
    found = [TracebackType(None, frame, place, -1) for place in places]
    lacking = [entry for entry in found if line_of(entry) is None]
    if not lacking:
        pytest.skip("all instructions have a line in this Python")
    return lacking[0]


def test_entry_without_a_line_gets_that_of_its_function() -> None:
    cause = ValueError("why").with_traceback(lineless())
    error = KeyError("what").with_traceback(lineless())
    error.__cause__ = cause
    group = ExceptionGroup("both", [error])
    first = lineless.__code__.co_firstlineno

    assert with_lines(group) is group

    for one in (error, cause):
        assert one.__traceback__ is not None
        assert one.__traceback__.tb_lineno == first
    assert "why" in str(pytest.ExceptionInfo.from_exception(error).getrepr())
