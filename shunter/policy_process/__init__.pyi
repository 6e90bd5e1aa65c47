"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .child import (
    Child as Child,
    Copies as Copies,
    PolicyWorker as PolicyWorker,
    fork_ahead as fork_ahead,
    main as main,
    taken as taken,
)
from .messages import (
    HEADER as HEADER,
    REPLY as REPLY,
    Begin as Begin,
    Decide as Decide,
    Decided as Decided,
    DryRan as DryRan,
    DryRun as DryRun,
    Failed as Failed,
    Order as Order,
    Ordered as Ordered,
    PolicyStatus as PolicyStatus,
    Remember as Remember,
    Remembered as Remembered,
    Reply as Reply,
    Request as Request,
    Tell as Tell,
    plan_of as plan_of,
    receive as receive,
    targets_bytes as targets_bytes,
    targets_of as targets_of,
    wire_plan as wire_plan,
)
