"""Lines of JSON: only the last may be torn, and only the next event may follow."""

import io

import pytest

from shunter.errors import LogDamagedError
from shunter.events import JobFinished, JobId
from shunter.events.log import export_jsonl, import_jsonl, open_log, read_log

pytestmark = pytest.mark.asyncio

LINES = [
    b'{"seq":1,"kind":"JobFinished","at_us":5,"job_id":"7"}\n',
    b'{"seq":2,"kind":"RoundPlanned","at_us":6,"number":1,"skipped":0,"seen":1}\n',
    b'{"seq":3,"kind":"JobFinished","at_us":7,"job_id":"8"}\n',
]


async def test_lines_are_one_object_an_event() -> None:
    async with open_log("memory:") as log:
        await import_jsonl(LINES, log)
    lines = io.BytesIO()
    async with read_log(log) as reader:
        assert await export_jsonl(reader, lines) == 3
    assert lines.getvalue() == b"".join(LINES)


async def test_stretch_is_exported_with_its_numbers() -> None:
    async with open_log("memory:", frame_events=2) as log:
        await import_jsonl(LINES, log)
    lines = io.BytesIO()
    async with read_log(log) as reader:
        assert await export_jsonl(reader, lines, 1, 2) == 1
    assert lines.getvalue() == LINES[1]


@pytest.mark.parametrize("cut", [1, 10, 50])
async def test_torn_last_line_is_dropped_and_reported(cut: int) -> None:
    async with open_log("memory:") as log:
        report = await import_jsonl([*LINES[:2], LINES[2][:cut]], log)
    assert (report.events, report.torn, log.seq) == (2, True, 2)


async def test_last_line_without_its_newline_is_whole() -> None:
    async with open_log("memory:") as log:
        report = await import_jsonl([*LINES[:2], LINES[2][:-1]], log)
    assert (report.events, report.torn) == (3, False)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([LINES[0][:20], LINES[1]], "line 1 is cut short, and not the last"),
        ([LINES[0], b"{torn\n"], "line 2 is not JSON"),
        ([LINES[0], LINES[2]], "line 2 is not the event 2"),
        ([LINES[0], b"[]\n"], "line 2 is not the event 2"),
        ([b'{"seq":1,"kind":"JobFinished","at_us":5}\n'], "line 1: .*job_id: Field required"),
    ],
)
async def test_other_lines_are_refused_by_number(lines: list[bytes], message: str) -> None:
    async with open_log("memory:") as log:
        with pytest.raises(LogDamagedError, match=message):
            await import_jsonl(lines, log)


async def test_import_goes_on_where_a_log_ends() -> None:
    async with open_log("memory:") as log:
        log.append([JobFinished(5, JobId("7"))])
        assert (await import_jsonl(LINES[1:], log)).events == 2
        assert log.seq == 3
