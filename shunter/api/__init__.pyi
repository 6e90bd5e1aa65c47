"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .access import (
    CUT as CUT,
    PEER as PEER,
    SHARE as SHARE,
    Callers as Callers,
    Peer as Peer,
    PeerProtocol as PeerProtocol,
    TimelyResponse as TimelyResponse,
    Tokens as Tokens,
    make_tokens as make_tokens,
    read_tokens as read_tokens,
    user_name as user_name,
)
from .answer_models import (
    ForecastDocument as ForecastDocument,
    JobRow as JobRow,
    ProposalDocument as ProposalDocument,
    TurnPart as TurnPart,
    ViewDocument as ViewDocument,
)
from .cluster import (
    Found as Found,
    decision_document as decision_document,
    find_decision as find_decision,
)
from .cluster_state import (
    NODE_STATES as NODE_STATES,
    Metrics as Metrics,
    gpus_by_queue as gpus_by_queue,
    nodes_of as nodes_of,
)
from .commands import (
    SAME_FIELDS as SAME_FIELDS,
    array_of as array_of,
    submission_of as submission_of,
)
from .event_stream import Stream as Stream
from .job_rows import (
    Present as Present,
    TurnShares as TurnShares,
    dated_why as dated_why,
    queue_document as queue_document,
)
from .jobs import history_in_log as history_in_log
from .output import (
    Lines as Lines,
    Piece as Piece,
    in_time_order as in_time_order,
    unsure_line as unsure_line,
)
from .problems import (
    STATUSES as STATUSES,
    ProblemDocument as ProblemDocument,
    usage_error as usage_error,
)
from .request_models import (
    ArrayBody as ArrayBody,
    ProposalBody as ProposalBody,
    SubmitBody as SubmitBody,
)
from .routes import ROUTES as ROUTES, openapi_document as openapi_document
from .routing import JSON as JSON, SSE as SSE, V1 as V1, NoBody as NoBody, Route as Route
from .services import RateLimit as RateLimit, UserTurns as UserTurns
from .serving import BriefHandler as BriefHandler, run_daemon as run_daemon
from .sockets import Listening as Listening, listening_on as listening_on, take_lock as take_lock
