"""The event log: frames of events in a hash chain, in memory, in SQLite, or as a chain alone."""

from shunter.events.log.frames import Frame, Head, Outcomes, Snapshot, WithoutLost
from shunter.events.log.opening import (
    ImportReport,
    claim_log,
    export_jsonl,
    files_of,
    import_jsonl,
    load_store,
    open_log,
    open_past_jobs,
    read_log,
    reindex_log,
    seal,
    upgrade_log,
)
from shunter.events.log.reader import LogReader, VerifyReport
from shunter.events.log.stores import Segment, StoredPastJobs
from shunter.events.log.writer import LogWriter

__all__ = [
    "Frame",
    "Head",
    "ImportReport",
    "LogReader",
    "LogWriter",
    "Outcomes",
    "Segment",
    "Snapshot",
    "StoredPastJobs",
    "VerifyReport",
    "WithoutLost",
    "claim_log",
    "export_jsonl",
    "files_of",
    "import_jsonl",
    "load_store",
    "open_log",
    "open_past_jobs",
    "read_log",
    "reindex_log",
    "seal",
    "upgrade_log",
]
