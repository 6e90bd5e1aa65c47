"""What is said to agents and by them: the bytes of every message, and what is none.

The files in golden/ have a line for each kind of message; that of the answers begins with a
greeting and news. Where a line has to change, `shunter.backends.node.messages` says whether
PROTOCOL is to be raised.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shunter.backends.live import (
    OtherProtocolError,
    decode_answer,
    decode_greeting,
    decode_line,
    decode_news,
    decode_number,
    encode_question,
)
from shunter.backends.node import KINDS_NOTED, PROTOCOL, Known, WrongMessageError, messages
from tests.unit.backends.node.orders import started_of, status_of

GOLDEN = Path(__file__).parent / "golden"
QUESTIONS = (GOLDEN / "questions.jsonl").read_bytes().splitlines(keepends=True)
GREETING, NEWS, *ANSWERS = (GOLDEN / "answers.jsonl").read_bytes().splitlines(keepends=True)
ASKED: dict[str, Any] = {question.DO: question for question in messages.Question.__subclasses__()}
ANSWERED = (
    *("claim", "claim", "claim", "look", "beat", "look", "start", "start", "fence", "set_aside"),
    *("send", "inventory", "reshape", "reshape", "switch", "read", "read", "port", "port", "fence"),
)
"""The questions that the lines of the answers answer."""
KNOWN, NEVER = decode_news(decode_line(NEWS))
LOOKED: Any = decode_answer(ASKED["look"], decode_line(ANSWERS[3]))
CLOCKS = {"now_ns": 1, "up_ns": 1}
NEEDED = ("boot", "started_ns", "pid", "placement", "ranks", "gpus", "port")
STARTED = {name: started_of(pid=2, port=None)[name] for name in NEEDED}
ENDED = {name: status_of()[name] for name in ("code", "suspended", "why", "saved", "ended_ns")}
GREETED = json.loads(GREETING)


def line_of(said: Any) -> bytes:
    return said if isinstance(said, bytes) else json.dumps(said).encode()


def answered(do: str, said: Any) -> Any:
    """Decode an answer as who asked does: its number first, then what it is."""
    told = decode_line(line_of(said))
    if decode_number(told) is None:
        return decode_news(told)
    return decode_answer(ASKED[do], told)


def inventory(**changed: object) -> dict[str, object]:
    return {"id": 1, **CLOCKS, "attempts": [{**NEVER, **changed}]}


def looked(**changed: object) -> dict[str, object]:
    return {"id": 1, **CLOCKS, "changed": [], "samples": [], "gpus": None, **changed}


def noted(**note: object) -> dict[str, object]:
    return inventory(notes=[{"n": 1, "at_ns": 1, **note}])


@pytest.mark.parametrize(
    ("number", "line"), [*enumerate(QUESTIONS)], ids=[json.loads(each)["do"] for each in QUESTIONS]
)
def test_question_is_these_bytes(number: int, line: bytes) -> None:
    said = json.loads(line)
    assert encode_question(number, ASKED[said["do"]].decoded(said)) == line


@pytest.mark.parametrize(("number", "line"), [*enumerate(ANSWERS)], ids=ANSWERED)
def test_answer_is_these_bytes(number: int, line: bytes) -> None:
    told = decode_line(line)
    assert decode_number(told) == number
    answer = decode_answer(ASKED[ANSWERED[number]], told)
    assert line == b'{"id":%d,%b\n' % (number, msgspec.json.encode(answer)[1:])


def test_greeting_and_news_are_these_bytes() -> None:
    assert msgspec.json.encode(decode_greeting(GREETING)) + b"\n" == GREETING
    assert decode_number(decode_line(NEWS)) is None
    assert NEWS.startswith(msgspec.json.encode({"changed": (KNOWN, NEVER)})[:-1])


def test_every_question_and_every_kind_of_answer_has_a_line() -> None:
    asked, told = map(json.loads, QUESTIONS), [*map(json.loads, ANSWERS)]
    assert {question["do"] for question in asked} == {*ANSWERED} == {*ASKED}
    assert {note.what for note in KNOWN.notes} == {*KINDS_NOTED}
    kinds = {each for each in vars(messages).values() if is_answer(each)}
    found = [decode_answer(ASKED[do], line) for do, line in zip(ANSWERED, told, strict=True)]
    assert kinds == {messages.Greeting, *map(type, found)}


def is_answer(value: object) -> bool:
    if not isinstance(value, type) or value.__name__.startswith("_"):
        return False
    return issubclass(value, messages.Answer) and value is not messages.Answer


def test_variable_that_is_no_utf8_reaches_the_agent_as_python_reads_it() -> None:
    question = messages.Read(job="j", attempt=1, name="\udcff", offset=0, bytes=1)
    said = json.loads(encode_question(7, question))
    assert (said["id"], said["do"], said["name"]) == (7, "read", "\udcff")


def one_by_one(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return each of the values of each field, by itself."""
    return [{name: value} for name, several in values.items() for value in several]


NO_CLOCKS = ("x", 1.0, -1, 2**63, 10**40)
DEEP = b"[" * 100_000 + b"]" * 100_000
TAKEN = b'"now_ns": 1, "up_ns": 1, "taken": true'
NO_LINES: dict[str, list[Any]] = {
    "send": [
        *([1], b"no JSON", b"[" * 100_000),
        b'{"id": 1, "x": ' + DEEP + b"}",
        b'{"id": 1, "x": "\\ud800", "y": ' + DEEP + b"}",
        b'{"id": 1, ' + TAKEN + b', "x": NaN}',
        b'{"id": 1, ' + TAKEN + b"} {}",
        b'{"id": 1, "now_ns": ' + b"9" * 5000 + b', "up_ns": 1, "taken": true}',
        *({"id": number, **CLOCKS, "taken": True} for number in ("1", 1.0, -1, True)),
        *({"id": 1, "up_ns": 1, "taken": True, "now_ns": now} for now in NO_CLOCKS),
        {"id": 1, "now_ns": 10**40, "up_ns": 1, "error": "x"},
        {"changed": [{**NEVER, "status": {"code": "x"}}]},
        *({"changed": None}, {"other": 1}),
    ],
    "read": [b'{"id": 1, "now_ns": 1, "up_ns": 1, "data": "\xff", "size": 1}'],
}
NO_ANSWERS: dict[str, list[dict[str, Any]]] = {
    "switch": [
        {"stands": [{"job": "j1", "attempt": 1, "stance": "up"}]},
        {"stands": [{"job": "../x", "attempt": 1, "stance": "lost"}]},
    ],
    "send": [{}, *one_by_one({"taken": ["yes", 1]})],
    "set_aside": [{"is_over": None}],
    "port": [{}, *one_by_one({"port": [10**9, "80"]})],
    "read": [
        *({"data": data, "size": 1} for data in ("\u20ac", "\ud800", "x" * ((1 << 18) + 1))),
        *({"data": "x", "size": -1}, {"data": "x"}),
    ],
    "claim": [
        *({"root": 7, "term": 1}, {"root": "/b"}, {"root": "/" * 4097, "term": 1}),
        *({"refused": "tired", "cause": "x"}, {"refused": "taken", "cause": 7}),
    ],
    "start": [{"answer": "begun"}, {"answer": "started", "known": {}}],
    "look": [
        *(looked(changed=7), looked(samples=[{}]), looked(gpus=[{"index": "x"}])),
        {"changed": [], "samples": []},
    ],
    "fence": [{"fenced": [{**NEVER, "notes": [{"n": 1, "what": "saved"}]}]}],
    "inventory": [
        {"attempts": [{**NEVER, **changed}]}
        for changed in one_by_one(
            {
                "job": ["../x", ".x", "", "x\n", "ä", "x" * 129],
                "state": ["well"],
                "attempt": [0, 10**9 + 1],
                "folder": ["/" * 4097, "/\ud800"],
                "after": [2**53],
                "facts": ["1"],
                "is_all": [0],
                "started": [{"pid": 1}],
                "notes": [[{"n": 1, "what": "training", "at_ns": 1}] * 101],
            }
        )
    ],
}


@pytest.mark.parametrize(
    ("do", "said"),
    [
        *((do, line) for do, lines in NO_LINES.items() for line in lines),
        *((do, {"id": 1, **CLOCKS, **each}) for do, all_ in NO_ANSWERS.items() for each in all_),
    ],
)
def test_answer_of_a_wrong_shape_is_none(do: Any, said: Any) -> None:
    with pytest.raises(WrongMessageError) as refused:
        answered(do, said)
    words = str(refused.value)
    assert len(words) < 300
    words.encode()
    assert words.isprintable()


@pytest.mark.parametrize(
    "changed",
    one_by_one(
        {
            "boot": ["b" * 65],
            "started_ns": [-1],
            "pid": [0, 2**31],
            "placement": [
                *([["n0"]], [["n0", 1, 2]], [["n0", -1]], [["n0", -(2**70)]], [["n0", 2**1024]]),
                [["n" * 257, 1]],
            ],
            "ranks": [
                *([{}], [{"cpus": [-1]}], [{"cpus": [0] * 8193}], [{"cpus": [], "pinned": 1}]),
                [{"cpus": []}] * 4097,
            ],
            "port": [65536],
            "gpus": ["0", ["x" * 129]],
            "cgroup": [7],
            "job": ["../x"],
            "attempt": [0],
            "term": [-1],
            "uid": [2**32],
            "since": [0.5],
        }
    ),
)
def test_record_of_a_start_is_held_to_its_bounds(changed: dict[str, Any]) -> None:
    assert answered("inventory", inventory(started=STARTED)).attempts[0].started.pid == 2
    with pytest.raises(WrongMessageError):
        answered("inventory", inventory(started={**STARTED, **changed}))
    without = {name: value for name, value in STARTED.items() if name not in changed}
    if len(without) < len(STARTED):
        with pytest.raises(WrongMessageError):
            answered("inventory", inventory(started=without))


@pytest.mark.parametrize(
    "changed",
    one_by_one(
        {
            "code": [256, -1, None],
            "suspended": [0],
            "why": ["tired"],
            "saved": ["no"],
            "ended_ns": [2**63],
            "codes": [[0, 256], 7],
            "stragglers": [-1],
            "memory_kills": ["1"],
            "output_dropped_bytes": [2**53],
            "saved_ns": [-1],
            "signal": [0, 128],
        }
    ),
)
def test_record_of_an_end_is_held_to_its_bounds(changed: dict[str, Any]) -> None:
    assert answered("inventory", inventory(status=ENDED)).attempts[0].status.why == ""
    with pytest.raises(WrongMessageError):
        answered("inventory", inventory(status={**ENDED, **changed}))


@pytest.mark.parametrize(
    "note",
    [
        {"what": "requested"},
        {"what": "requested", "mode": "x" * 17},
        {"what": "escalated"},
        {"what": "escalated", "mode": "cooperative"},
        {"what": "refused", "count": 1},
        {"what": "refused", "count": 0, "cause": "x"},
        {"what": "refused", "cause": "x"},
        {"what": "refused", "count": 1, "cause": "x" * 1001},
        {"what": "saved", "step": -1},
        {"what": "saved", "step": 2**53},
        {"what": "saved", "bytes": 0.5},
        {"what": "saved", "checkpoint": "x" * 4097},
        {"what": "failed", "error": 7},
        {"what": "training", "n": 0},
        {"what": "training", "at_ns": 10**19},
        {"what": "x" * 41},
        {"what": 7},
        {},
    ],
)
def test_note_is_held_to_its_kind(note: dict[str, Any]) -> None:
    with pytest.raises(WrongMessageError):
        answered("inventory", noted(**note))


def test_note_has_what_its_kind_has_and_a_kind_of_another_version_is_other() -> None:
    (found,) = answered("inventory", noted(what="training", step=7, mode="m")).attempts[0].notes
    assert (found.what, found.step, found.mode) == ("training", None, None)
    (found,) = answered("inventory", noted(what="paused", cause="x", more=[1])).attempts[0].notes
    assert (found.n, found.what, found.at_ns, found.cause) == (1, "other", 1, None)


@pytest.mark.parametrize(
    "changed",
    one_by_one(
        {
            "at_ns": [None],
            "pids": [[2**31], [0] * 4097],
            "step": [-1],
            "batch_s": [1e7, -0.5, 10**400, float("nan"), float("inf"), True],
            "printed": [1],
            "cpus": [65537],
            "memory_mb": [1.5],
            "job": ["a/b"],
            "attempt": [-1],
        }
    ),
)
def test_sample_is_held_to_its_bounds(changed: dict[str, Any]) -> None:
    right = dict(LOOKED.samples[0])
    assert answered("look", looked(samples=[{**right, "batch_s": 1}])).samples[0].batch_s == 1.0
    with pytest.raises(WrongMessageError):
        answered("look", looked(samples=[{**right, **changed}]))


@pytest.mark.parametrize(
    "changed",
    one_by_one(
        {
            "index": [-1],
            "faults": [{"x" * 257: 1}, {"x": 10**7}, dict.fromkeys(map(str, range(65)), 1), None],
            "uuid": ["x" * 129],
            "utilisation": [100.5],
            "memory_mb": [-1],
            "memory_total_mb": [2**53],
            "memory_by_pid": [
                *({"x": 1}, {"-1": 1}, {"1.0": 1}, {"\u0661": 1}, {"9" * 300: 1}, {"1": "1"}),
            ],
        }
    ),
)
def test_reading_of_a_gpu_is_held_to_its_bounds(changed: dict[str, Any]) -> None:
    (reading,) = LOOKED.gpus
    right = {**reading, "memory_by_pid": {"100": 90}, "name": "V100"}
    assert answered("look", looked(gpus=[right])).gpus == (reading.replaced(name="V100"),)
    with pytest.raises(WrongMessageError):
        answered("look", looked(gpus=[{**right, **changed}]))


def test_error_is_told_in_words_that_can_be_kept() -> None:
    for said in ("\ud800" * 10**6, "/b/\udcff", {"a": [1]}, None, 10**40, "x" * 5000):
        found = answered("send", {"id": 1, **CLOCKS, "error": said, "taken": True})
        assert isinstance(found, messages.Failed)
        assert 0 < len(found.error.encode()) <= 1000
    assert answered("send", {"id": 1, **CLOCKS, "error": "/\udcff"}).error == "/\\udcff"


def test_cause_is_told_in_words_that_can_be_kept() -> None:
    refused = {"id": 1, **CLOCKS, "refused": "shared", "cause": "/b\udcff" + "x" * 5000}
    assert answered("claim", refused).cause.startswith("/b\\udcffx")
    assert len(answered("claim", refused).cause) == 1000
    failed = {"id": 1, **CLOCKS, "answer": "failed", "cause": "y" * 5000}
    assert answered("start", failed).cause == "y" * 1000


def test_what_nobody_asked_for_is_left_out() -> None:
    said = {"id": 1, **CLOCKS, "taken": True, "more": [{"deep": [1.5]}], "n": 10**40}
    assert answered("send", said) == messages.SendAnswer(now_ns=1, up_ns=1, taken=True)


def test_record_without_what_is_optional_is_taken() -> None:
    record = {**NEVER, "started": STARTED, "status": ENDED}
    (found,) = answered("fence", {"id": 1, **CLOCKS, "fenced": [record]}).fenced
    assert isinstance(found, Known)
    assert found.started is not None
    assert (found.started.cgroup, found.started.uid) == (None, None)
    assert found.status is not None
    assert (found.status.codes, found.status.saved_ns) == (None, None)


@pytest.mark.parametrize(
    "said",
    [
        {"protocol": PROTOCOL},
        {**GREETED, "up_ns": None},
        [1],
        {**GREETED, "uid": -1},
        {**GREETED, "python": [3, 8, 0, 1]},
        {**GREETED, "wall_s": float("nan")},
        {**GREETED, "base": 7},
        {**GREETED, "protocol": "1"},
        {**GREETED, "protocol": 0},
        {**GREETED, "protocol": 10**40},
        b"SSH-2.0",
    ],
)
def test_greeting_of_nobody_is_none(said: Any) -> None:
    with pytest.raises(WrongMessageError) as refused:
        decode_greeting(line_of(said))
    assert not isinstance(refused.value, OtherProtocolError)


def test_greeting_without_a_version_is_of_the_first() -> None:
    said = {name: value for name, value in GREETED.items() if name != "protocol"}
    with pytest.raises(OtherProtocolError, match="an agent that speaks version 1 of"):
        decode_greeting(line_of(said))


def test_agent_of_another_version_is_refused_whatever_else_it_says() -> None:
    with pytest.raises(OtherProtocolError) as refused:
        decode_greeting(line_of({"protocol": PROTOCOL + 1, "base": ["another", "shape"]}))
    assert str(refused.value) == (
        f"it is of an agent that speaks version {PROTOCOL + 1} of the protocol, "
        f"expected {PROTOCOL}: this scheduler is the older one, so install the other's version "
        "of Shunter in its place"
    )
