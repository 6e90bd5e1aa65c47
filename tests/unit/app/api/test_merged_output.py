"""Both streams of a rank in one: in the order of time, line by line, and honest where unknown."""

from math import inf

from shunter.api import Lines, Piece, in_time_order, unsure_line


def order(times: tuple[bytes, bytes], ends: tuple[int, int]) -> list[tuple[int, int, int]]:
    found = in_time_order(times, (0, 0), ends)
    return [(piece.stream, piece.begin, piece.end) for piece in found]


def unsure(times: tuple[bytes, bytes], ends: tuple[int, int]) -> list[float]:
    return [piece.unsure_ms for piece in in_time_order(times, (0, 0), ends)]


def test_parts_come_in_the_order_of_their_times() -> None:
    times = (b"1.000 10\n3.000 20\n", b"2.000 5\n4.000 7\n")
    assert order(times, (20, 7)) == [(0, 0, 10), (1, 0, 5), (0, 10, 20), (1, 5, 7)]
    assert unsure(times, (20, 7)) == [0, 0, 0, 0]


def test_what_follows_on_the_same_stream_is_one_part() -> None:
    assert order((b"1.0 10\n2.0 20\n", b"3.0 5\n"), (20, 5)) == [(0, 0, 20), (1, 0, 5)]


def test_what_is_newer_than_all_looks_comes_last_and_is_unsure() -> None:
    times = (b"1.000 10\n", b"2.000 5\n")
    assert order(times, (15, 9)) == [(0, 0, 10), (1, 0, 5), (0, 10, 15), (1, 5, 9)]
    assert unsure(times, (15, 9)) == [0, 0, 1000, 1000]
    assert unsure(times, (15, 5)) == [0, 0, 0]


def test_order_within_a_long_look_is_told_and_within_a_short_one_not() -> None:
    found = in_time_order((b"1.000 9 1.000\n", b"1.000 5 1.000\n"), (0, 0), (9, 5))
    assert b"not known within 1.0 s" in unsure_line(found[0])
    found = in_time_order((b"1.000 9 0.050\n", b"1.000 5 0.050\n"), (0, 0), (9, 5))
    assert [unsure_line(piece) for piece in found] == [b"", b""]


def test_lines_left_out_matter_only_where_the_other_stream_printed() -> None:
    times = (b"10.000 50 9.000\n", b"20.000 5\n")
    assert unsure(times, (50, 5)) == [0, 0]
    times = (b"10.000 50 9.000\n", b"5.000 5\n")
    assert unsure(times, (50, 5)) == [0, 9000]


def test_output_without_times_is_told_as_such() -> None:
    found = in_time_order((b"", b""), (0, 0), (9, 5))
    assert [piece.unsure_ms for piece in found] == [inf, inf]
    assert unsure_line(found[0]) == (b"shunter: which stream was first is not known from here on\n")
    assert unsure_line(Piece(0, 0, 1)) == b""


def test_one_stream_alone_is_never_unsure() -> None:
    assert unsure((b"", b""), (9, 0)) == [0]


def test_no_line_is_torn() -> None:
    lines = Lines()
    shown = lines.take(0, b"one\ntw") + lines.take(1, b"err\n") + lines.take(0, b"o\n")
    assert shown == b"one\nerr\ntwo\n"


def test_line_that_is_being_printed_is_shown_while_nothing_else_is() -> None:
    lines = Lines()
    assert lines.take(0, b"50%") == b""
    assert lines.idle() == b"50%"
    assert lines.take(1, b"err\n") == b"\nerr\n"
    assert lines.take(0, b" done\n") == b" done\n"


def test_progress_bar_is_no_line_without_end() -> None:
    lines = Lines()
    assert lines.take(1, b"1/9\r2/9\r") == b"1/9\r2/9\r"
    assert lines.take(0, b"x" * 70_000) == b"x" * 70_000
    assert lines.rest() == b""


def test_what_was_not_ended_comes_at_the_end() -> None:
    lines = Lines()
    shown = lines.take(0, b"a") + lines.take(1, b"b")
    assert (shown, lines.idle(), lines.rest()) == (b"", b"", b"a\nb")
