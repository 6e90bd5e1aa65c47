"""Tracebacks of which some entry has no line: instructions that close a block may have none."""

from types import TracebackType

__all__ = ["line_of", "with_lines"]


def line_of(entry: TracebackType) -> int | None:
    """Return the line of an entry, which may be none, whatever its type says."""
    return entry.tb_lineno


def with_lines(error: BaseException) -> BaseException:
    """Return an exception whose entries, and those of its causes, all have a line.

    An entry without one gets the first line of its function.
    """
    todo: list[BaseException | None] = [error]
    known: list[int] = []
    while todo:
        one = todo.pop()
        if one is None or id(one) in known:
            continue
        known.append(id(one))
        one.__traceback__ = _mended(one.__traceback__)
        todo += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            todo += one.exceptions
    return error


def _mended(trace: TracebackType | None) -> TracebackType | None:
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    if all(line_of(entry) is not None for entry in entries):
        return entries[0] if entries else None
    following = None
    for entry in reversed(entries):
        line = line_of(entry)
        frame = entry.tb_frame
        known = frame.f_code.co_firstlineno if line is None else line
        following = TracebackType(following, frame, entry.tb_lasti, known)
    return following
