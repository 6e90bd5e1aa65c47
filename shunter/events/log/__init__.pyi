"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .frames import (
    GENESIS as GENESIS,
    SPAN_EVENTS as SPAN_EVENTS,
    Frame as Frame,
    Snapshot as Snapshot,
    WithoutLost as WithoutLost,
    next_chain as next_chain,
)
from .opening import (
    MEMORY as MEMORY,
    NONE as NONE,
    claim_log as claim_log,
    export_jsonl as export_jsonl,
    files_of as files_of,
    import_jsonl as import_jsonl,
    load_store as load_store,
    open_log as open_log,
    open_past_jobs as open_past_jobs,
    path_of as path_of,
    read_log as read_log,
    reindex_log as reindex_log,
    seal as seal,
    upgrade_log as upgrade_log,
)
from .questions import Answered as Answered, query_log as query_log
from .reader import LogReader as LogReader, VerifyReport as VerifyReport
from .sqlite import (
    SIDE_FILES as SIDE_FILES,
    SLOT_BYTES as SLOT_BYTES,
    Anchor as Anchor,
    WriterConnection as WriterConnection,
    WriterLock as WriterLock,
    anchor_path as anchor_path,
    connect as connect,
    failures_named as failures_named,
    read_anchor as read_anchor,
    reading as reading,
    writing as writing,
)
from .sqlite_source import pack_bytes as pack_bytes
from .stores import NullStore as NullStore, Segment as Segment, StoredPastJobs as StoredPastJobs
from .tables import REVISION as REVISION, PastUpto as PastUpto
from .upgrading import upgrade_tables as upgrade_tables
from .writer import LogWriter as LogWriter
