"""The supervisor's end of the channel: what is taken, what is dropped, and what is told of that."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.backends.node import LINE_BYTES_MAX, NOTES_AT_ONCE, WARNINGS_MOST, Channel, fifo
from tests.live.poison import GOOD, WRONG


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Channel]:
    found = Channel(fifo(str(tmp_path / "channel")))
    yield found
    os.close(found.fifo)


def say(channel: Channel, *lines: str, end: str = "\n") -> None:
    os.write(channel.fifo, (end.join(lines) + end).encode())


def test_message_is_taken_with_the_fields_of_its_kind_only(channel: Channel) -> None:
    say(channel, '{"what": "saved", "checkpoint": "c", "step": 3, "colour": "red"}')
    assert channel.read() == [{"what": "saved", "checkpoint": "c", "step": 3}]
    assert channel.dropped == 0


@pytest.mark.parametrize("line", WRONG, ids=lambda line: line[:50])
def test_wrong_message_is_counted_and_the_next_one_taken(channel: Channel, line: str) -> None:
    taken = []
    for piece in (line[:30_000], line[30_000:] + "\n", GOOD + "\n"):
        os.write(channel.fifo, piece.encode())
        taken += channel.read()
    assert [each["step"] for each in taken] == [7]
    assert channel.dropped == 1
    assert 0 < len(channel.cause) <= 200


def test_message_that_came_in_two_pieces_is_one(channel: Channel) -> None:
    say(channel, GOOD[:20], end="")
    assert channel.read() == []
    say(channel, GOOD[20:])
    assert len(channel.read()) == 1


def test_message_of_exactly_so_many_bytes_is_taken(channel: Channel) -> None:
    frame = '{"what": "saved", "checkpoint": ""}'
    say(channel, frame.replace('""', f'"{"x" * (LINE_BYTES_MAX - len(frame))}"'))
    assert len(channel.read()) == 1
    say(channel, frame.replace('""', f'"{"x" * (LINE_BYTES_MAX - len(frame) + 1)}"'))
    assert channel.read() == []
    assert channel.dropped == 1


def test_dropping_is_told_at_the_first_the_tenth_and_the_last(channel: Channel) -> None:
    told = []
    for number in range(1, 126):
        channel.drop("wrong")
        if channel.is_to_be_told():
            told.append(number)
    assert told == [1, 10, 100]
    assert channel.is_to_be_told(last=True)
    assert not channel.is_to_be_told(last=True)


def test_notes_are_few_whatever_a_job_says(channel: Channel) -> None:
    allowed = sum(channel.may_note() for _ in range(10_000))
    assert NOTES_AT_ONCE <= allowed <= NOTES_AT_ONCE + 5
    assert channel.dropped == 10_000 - allowed


def test_warning_is_taken_once_in_one_line_that_moves_no_cursor(channel: Channel) -> None:
    assert channel.new_warning("other\n\x1b[2Jorder \u202e") == "other  [2Jorder"
    assert channel.new_warning("other\n\x1b[2Jorder ") == ""
    assert channel.new_warning(" \n") == ""
    assert len(channel.new_warning("x" * 4000)) == 500
    assert channel.dropped == 0


def test_warnings_of_a_job_are_few(channel: Channel) -> None:
    taken = [text for number in range(100) if (text := channel.new_warning(f"number {number}"))]
    assert len(taken) == WARNINGS_MOST
    assert channel.dropped == 100 - WARNINGS_MOST
    assert "warnings" in channel.cause
