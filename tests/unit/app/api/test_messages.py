"""What the API tells on stderr: each thing once a minute, faults with their traceback."""

import inspect
import logging

import pytest
from uvicorn import Server

from shunter.api import BriefHandler


def test_equal_messages_are_told_once_a_minute_with_their_number() -> None:
    told: list[str] = []
    clock = [0.0]
    handler = BriefHandler(told.append, lambda: clock[0])
    record = logging.LogRecord("x", logging.WARNING, "", 0, "Invalid HTTP request.", None, None)
    for second in range(62):
        clock[0] = float(second)
        handler.emit(record)
    assert told == [
        "http: Invalid HTTP request.",
        "http: Invalid HTTP request. (and 59 more times since it was told last)",
    ]


def test_fault_is_told_with_its_traceback() -> None:
    told: list[str] = []
    with pytest.raises(KeyError) as raised:
        dict[str, int]()["a"]
    info = (raised.type, raised.value, raised.tb)
    record = logging.LogRecord("x", logging.ERROR, "", 0, "Exception", None, info)
    BriefHandler(told.append, lambda: 0.0).emit(record)
    assert "Traceback" in told[0]
    assert "KeyError: 'a'" in told[0]


def test_client_that_follows_a_job_as_the_daemon_ends_is_no_fault() -> None:
    told: list[str] = []
    record = logging.LogRecord(
        "uvicorn.error",
        logging.ERROR,
        "",
        1,
        "Cancel %s running task(s), timeout graceful shutdown exceeded",
        (1,),
        None,
    )
    assert f'"{record.msg}"' in inspect.getsource(Server.shutdown)  # uvicorn's words
    BriefHandler(told.append, lambda: 0.0).emit(record)
    assert told == []
