"""What is said to agents and by them: the bytes of every message, and what is none.

The files in golden/ hold a line for each message of samples.py, after a greeting and news. Where
one of them has to change, `shunter.backends.node.messages` says whether PROTOCOL is to be raised.
"""

import json
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
from tests.unit.backends.agents.samples import (
    ABSENT,
    ANSWERS,
    GREETING,
    KNOWN,
    NOTES,
    QUESTIONS,
    READING,
    SAMPLE,
)

GOLDEN = Path(__file__).parent / "golden"
CLOCKS = {"now_ns": 1, "up_ns": 1}
NEVER = dict(ABSENT)
STARTED = {"boot": "b", "started_ns": 1, "pid": 2, "placement": [], "ranks": [], "gpus": []}
STARTED = {**STARTED, "port": None}
ENDED = {"code": 0, "suspended": False, "why": "", "saved": False, "ended_ns": 1}
GREETED = dict(GREETING)
ASKED = {question.DO: type(question) for question in QUESTIONS}


def lines_of(name: str) -> list[bytes]:
    return (GOLDEN / name).read_bytes().splitlines(keepends=True)


def line_of(said: Any) -> bytes:
    return said if isinstance(said, bytes) else json.dumps(said).encode()


def answered(do: Any, said: Any) -> Any:
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


def test_questions_are_these_bytes() -> None:
    assert [encode_question(*each) for each in enumerate(QUESTIONS)] == lines_of("questions.jsonl")


def test_every_question_and_every_kind_of_answer_has_a_line() -> None:
    asked = set(messages.Question.__subclasses__())
    assert {type(question) for question in QUESTIONS} == asked
    assert {question for question, _ in ANSWERS} == asked
    told = {messages.Greeting, *map(type, [answer for _, answer in ANSWERS])}
    assert {each for each in vars(messages).values() if is_answer(each)} == told


def is_answer(value: object) -> bool:
    if not isinstance(value, type) or value.__name__.startswith("_"):
        return False
    return issubclass(value, messages.Answer) and value is not messages.Answer


def test_answers_are_these_bytes_both_ways() -> None:
    greeting, news, *lines = lines_of("answers.jsonl")
    assert decode_greeting(greeting) == GREETING
    assert msgspec.json.encode(GREETING) == greeting.rstrip()
    assert decode_number(decode_line(news)) is None
    assert decode_news(decode_line(news)) == (KNOWN, ABSENT)
    assert len(lines) == len(ANSWERS)
    for number, ((question, answer), line) in enumerate(zip(ANSWERS, lines, strict=True)):
        told = decode_line(line)
        assert decode_number(told) == number
        assert decode_answer(question, told) == answer
        assert line == b'{"id":%d,%b\n' % (number, msgspec.json.encode(answer)[1:])


def test_variable_that_is_no_utf8_reaches_the_agent_as_python_reads_it() -> None:
    question = messages.Read(job="j", attempt=1, name="\udcff", offset=0, bytes=1)
    said = json.loads(encode_question(7, question))
    assert (said["id"], said["do"], said["name"]) == (7, "read", "\udcff")


@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("switch", {"id": 1, **CLOCKS, "stands": [{"job": "j1", "attempt": 1, "stance": "up"}]}),
        (
            "switch",
            {"id": 1, **CLOCKS, "stands": [{"job": "../x", "attempt": 1, "stance": "lost"}]},
        ),
        ("send", [1]),
        ("send", b"no JSON"),
        ("send", b"[" * 100_000),
        ("send", b'{"id": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        ("send", b'{"id": 1, "x": "\\ud800", "y": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        ("send", b'{"id": 1, "now_ns": 1, "up_ns": 1, "taken": true, "x": NaN}'),
        ("send", b'{"id": 1, "now_ns": 1, "up_ns": 1, "taken": true} {}'),
        ("read", b'{"id": 1, "now_ns": 1, "up_ns": 1, "data": "\xff", "size": 1}'),
        ("send", b'{"id": 1, "now_ns": ' + b"9" * 5000 + b', "up_ns": 1, "taken": true}'),
        ("send", {"id": 1}),
        ("send", {"id": "1", **CLOCKS, "taken": True}),
        ("send", {"id": 1.0, **CLOCKS, "taken": True}),
        ("send", {"id": -1, **CLOCKS, "taken": True}),
        ("send", {"id": True, **CLOCKS, "taken": True}),
        ("send", {"id": 1, "now_ns": "x", "up_ns": 1, "taken": True}),
        ("send", {"id": 1, "now_ns": 1.0, "up_ns": 1, "taken": True}),
        ("send", {"id": 1, "now_ns": -1, "up_ns": 1, "taken": True}),
        ("send", {"id": 1, "now_ns": 2**63, "up_ns": 1, "taken": True}),
        ("send", {"id": 1, "now_ns": 10**40, "up_ns": 1, "taken": True}),
        ("send", {"id": 1, "now_ns": 10**40, "up_ns": 1, "error": "x"}),
        ("send", {"id": 1, **CLOCKS, "taken": "yes"}),
        ("send", {"id": 1, **CLOCKS, "taken": 1}),
        ("set_aside", {"id": 1, **CLOCKS, "is_over": None}),
        ("port", {"id": 1, **CLOCKS, "port": 10**9}),
        ("port", {"id": 1, **CLOCKS, "port": "80"}),
        ("port", {"id": 1, **CLOCKS}),
        ("read", {"id": 1, **CLOCKS, "data": "\u20ac", "size": 1}),
        ("read", {"id": 1, **CLOCKS, "data": "\ud800", "size": 1}),
        ("read", {"id": 1, **CLOCKS, "data": "x" * ((1 << 18) + 1), "size": 1}),
        ("read", {"id": 1, **CLOCKS, "data": "x", "size": -1}),
        ("read", {"id": 1, **CLOCKS, "data": "x"}),
        ("claim", {"id": 1, **CLOCKS, "root": 7, "term": 1}),
        ("claim", {"id": 1, **CLOCKS, "root": "/b"}),
        ("claim", {"id": 1, **CLOCKS, "root": "/" * 4097, "term": 1}),
        ("claim", {"id": 1, **CLOCKS, "refused": "tired", "cause": "x"}),
        ("claim", {"id": 1, **CLOCKS, "refused": "taken", "cause": 7}),
        ("start", {"id": 1, **CLOCKS, "answer": "begun"}),
        ("start", {"id": 1, **CLOCKS, "answer": "started", "known": {}}),
        ("look", looked(changed=7)),
        ("look", looked(samples=[{}])),
        ("look", looked(gpus=[{"index": "x"}])),
        ("look", {"id": 1, **CLOCKS, "changed": [], "samples": []}),
        ("inventory", inventory(job="../x")),
        ("inventory", inventory(job=".x")),
        ("inventory", inventory(job="")),
        ("inventory", inventory(job="x\n")),
        ("inventory", inventory(job="ä")),
        ("inventory", inventory(job="x" * 129)),
        ("inventory", inventory(state="well")),
        ("inventory", inventory(attempt=0)),
        ("inventory", inventory(attempt=10**9 + 1)),
        ("inventory", inventory(folder="/" * 4097)),
        ("inventory", inventory(folder="/\ud800")),
        ("inventory", inventory(after=2**53)),
        ("inventory", inventory(facts="1")),
        ("inventory", inventory(is_all=0)),
        ("inventory", inventory(started={"pid": 1})),
        ("inventory", inventory(notes=[{"n": 1, "what": "training", "at_ns": 1}] * 101)),
        ("fence", {"id": 1, **CLOCKS, "fenced": [{**NEVER, "notes": [{"n": 1, "what": "saved"}]}]}),
        ("send", {"changed": [{**NEVER, "status": {"code": "x"}}]}),
        ("send", {"changed": None}),
        ("send", {"other": 1}),
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
    [
        {"boot": "b" * 65},
        {"started_ns": -1},
        {"pid": 0},
        {"pid": 2**31},
        {"placement": [["n0"]]},
        {"placement": [["n0", 1, 2]]},
        {"placement": [["n0", -1]]},
        {"placement": [["n0", -(2**70)]]},
        {"placement": [["n0", 2**1024]]},
        {"placement": [["n" * 257, 1]]},
        {"ranks": [{}]},
        {"ranks": [{"cpus": [-1]}]},
        {"ranks": [{"cpus": [0] * 8193}]},
        {"ranks": [{"cpus": [], "pinned": 1}]},
        {"ranks": [{"cpus": []}] * 4097},
        {"port": 65536},
        {"gpus": "0"},
        {"gpus": ["x" * 129]},
        {"cgroup": 7},
        {"job": "../x"},
        {"attempt": 0},
        {"term": -1},
        {"uid": 2**32},
        {"since": 0.5},
    ],
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
    [
        {"code": 256},
        {"code": -1},
        {"code": None},
        {"suspended": 0},
        {"why": "tired"},
        {"saved": "no"},
        {"ended_ns": 2**63},
        {"codes": [0, 256]},
        {"codes": 7},
        {"stragglers": -1},
        {"memory_kills": "1"},
        {"output_dropped_bytes": 2**53},
        {"saved_ns": -1},
        {"signal": 0},
        {"signal": 128},
    ],
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
    assert {note.what for note in NOTES} == {*KINDS_NOTED}


@pytest.mark.parametrize(
    "changed",
    [
        {"at_ns": None},
        {"pids": [2**31]},
        {"pids": [0] * 4097},
        {"step": -1},
        {"batch_s": 1e7},
        {"batch_s": -0.5},
        {"batch_s": 10**400},
        {"batch_s": float("nan")},
        {"batch_s": float("inf")},
        {"batch_s": True},
        {"printed": 1},
        {"cpus": 65537},
        {"memory_mb": 1.5},
        {"job": "a/b"},
        {"attempt": -1},
    ],
)
def test_sample_is_held_to_its_bounds(changed: dict[str, Any]) -> None:
    right = dict(SAMPLE)
    assert answered("look", looked(samples=[{**right, "batch_s": 1}])).samples[0].batch_s == 1.0
    with pytest.raises(WrongMessageError):
        answered("look", looked(samples=[{**right, **changed}]))


@pytest.mark.parametrize(
    "changed",
    [
        {"index": -1},
        {"faults": {"x" * 257: 1}},
        {"faults": {"x": 10**7}},
        {"faults": {str(number): 1 for number in range(65)}},
        {"faults": None},
        {"uuid": "x" * 129},
        {"utilisation": 100.5},
        {"memory_mb": -1},
        {"memory_total_mb": 2**53},
        {"memory_by_pid": {"x": 1}},
        {"memory_by_pid": {"-1": 1}},
        {"memory_by_pid": {"1.0": 1}},
        {"memory_by_pid": {"\u0661": 1}},
        {"memory_by_pid": {"9" * 300: 1}},
        {"memory_by_pid": {"1": "1"}},
    ],
)
def test_reading_of_a_gpu_is_held_to_its_bounds(changed: dict[str, Any]) -> None:
    right = {**READING, "memory_by_pid": {"100": 90}, "name": "V100"}
    assert answered("look", looked(gpus=[right])).gpus == (READING.replaced(name="V100"),)
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
