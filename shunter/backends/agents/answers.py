"""What hosts may answer: each question has a shape, and what has not that shape is no answer.

A host may be anybody's by now, or run an agent that was tampered with. What it says is checked here
before anything of it is used. See `shunter.backends.node.messages.shapes`.
"""

from shunter.backends.node.messages.attempt_records import (
    KNOWN,
    NANOSECONDS,
    PATH,
    PORT,
    a_told_sample,
)
from shunter.backends.node.messages.shapes import (
    COUNT_MOST,
    WrongMessageError,
    a_choice,
    a_flag,
    a_list,
    a_number,
    a_record,
    a_table,
    a_text,
    a_whole,
    an_object,
    cleaned,
    or_none,
)
from shunter.backends.node.messages.wire import Known, Reply, Shape
from shunter.backends.node.remote.session import READ_BYTES_MAX

__all__ = ["ERROR_CHARACTERS", "GREETING", "answered", "news_in"]

ERROR_CHARACTERS = 1000
MANY = 100_000

_CLOCKS = {"now_ns": NANOSECONDS, "up_ns": NANOSECONDS}
_ENVELOPE: Shape[Reply] = a_record(_CLOCKS)
_NEWS: Shape[Reply] = a_record({"changed": a_list(KNOWN, MANY)})


def _by_pid(value: object) -> dict[str, int]:
    """Hold a value to be a table by the ids of processes."""
    found = a_table(a_whole(), MANY)(value)
    if not all(name.isascii() and name.isdigit() for name in found):
        raise WrongMessageError("has names that are no ids of processes")
    return found


_READING = a_record(
    {"index": a_whole(0, 1 << 16), "faults": a_table(a_whole(0, 10**6), 64)},
    {
        "uuid": a_text(128),
        "utilisation": a_number(0, 100),
        "memory_mb": a_whole(),
        "memory_total_mb": a_whole(),
        "memory_by_pid": _by_pid,
    },
)
_CAUSE = a_text(COUNT_MOST)

GREETING: Shape[Reply] = a_record(
    {
        **_CLOCKS,
        "base": PATH,
        "boot": a_text(64),
        "wall_s": a_number(0, 1e12),
        "python": a_list(a_whole(), 3),
        "uid": a_whole(0, 2**32 - 1),
    }
)
"""The first line of a session."""

_SHAPES: dict[str, Shape[Reply]] = {
    "claim": a_record(
        {},
        {
            "root": PATH,
            "term": a_whole(),
            "refused": a_choice("replaced", "taken", "shared"),
            "cause": _CAUSE,
        },
        leaves_out=True,
    ),
    "beat": a_record({}),
    "look": a_record(
        {
            "changed": a_list(KNOWN, MANY),
            "samples": a_list(a_told_sample, MANY),
            "gpus": or_none(a_list(_READING, 4096)),
        }
    ),
    "start": a_record(
        {"answer": a_choice("started", "known", "refused", "failed", "late", "unknown")},
        {"cause": _CAUSE, "known": KNOWN},
        leaves_out=True,
    ),
    "fence": a_record({"fenced": a_list(KNOWN, MANY)}),
    "set_aside": a_record({"is_over": a_flag}),
    "send": a_record({"taken": a_flag}),
    "inventory": a_record({"attempts": a_list(KNOWN, MANY)}),
    "read": a_record({"data": a_text(READ_BYTES_MAX), "size": or_none(a_whole())}),
    "port": a_record({"port": or_none(PORT)}),
}


def answered(do: str, line: object) -> Reply:
    """Return the answer to a question.

    Raises:
        WrongMessageError: it is none.
    """
    clocks, told = _ENVELOPE(line), an_object(line)
    if "error" in told:
        return {**clocks, "error": cleaned(told["error"], ERROR_CHARACTERS)}
    found = _SHAPES[do](line)
    if do == "read" and not found["data"].isascii() and max(found["data"]) > "\xff":
        raise WrongMessageError("is no text of bytes", "data")
    if "cause" in found:
        found["cause"] = cleaned(found["cause"], ERROR_CHARACTERS)
    return {**clocks, **found}


def news_in(line: object) -> list[Known]:
    """Return the attempts of which a line without a question tells.

    Raises:
        WrongMessageError: it tells of none.
    """
    return _NEWS(line)["changed"]
