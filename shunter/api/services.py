"""What all handlers share: the site, who may call, the stream, metrics, readers of the past."""

from collections.abc import Callable
from dataclasses import dataclass, field

import orjson

from shunter.api.access.callers import Callers
from shunter.api.access.rate_limit import RateLimit
from shunter.api.access.user_turns import UserTurns
from shunter.api.documents.cluster_state import state_document
from shunter.api.documents.view import view_document
from shunter.api.event_stream import Stream
from shunter.api.forecasts import Forecasts
from shunter.api.log_access import LogAccess
from shunter.api.metrics import Metrics
from shunter.daemon.groups import Groups
from shunter.daemon.site import Site
from shunter.errors import UnreachableError


@dataclass
class Services:
    """One site, and what serves it over HTTP; `openapi` returns its description."""

    site: Site
    callers: Callers
    stream: Stream
    metrics: Metrics
    openapi: Callable[[], bytes]
    past: LogAccess = field(init=False)
    groups: Groups = field(init=False)
    proposal_rate: RateLimit = field(init=False)
    dry_runs: UserTurns = field(init=False)
    forecasts: Forecasts = field(init=False)
    is_ready: bool = False
    _state: tuple[int, bytes] | None = None
    _view: tuple[int, bytes] | None = None

    def __post_init__(self) -> None:
        self.past = LogAccess(self.site.read_log)
        self.groups = Groups(self.past.read)
        self.proposal_rate = RateLimit(self.site.config.server.proposals_per_s)
        self.dry_runs = UserTurns("dry runs", waiting_most=4, at_once=4, retry_after_s=1.0)
        self.forecasts = Forecasts(self.site)

    def dated(self, at_us: int) -> str:
        """Return an instant of the log as a date."""
        return self.site.wall(at_us).isoformat(timespec="milliseconds")

    def state_now(self) -> tuple[int, bytes]:
        """Return the last event with what is true after it; made once for each event."""
        state = self.site.state
        if self._state is None or self._state[0] != state.seq:
            self._state = (state.seq, orjson.dumps(state_document(state, self.dated)))
        return self._state

    def view_now(self) -> tuple[int, bytes]:
        """Return the last event with what is free after it; made once for each event."""
        state = self.site.state
        if self._view is None or self._view[0] != state.seq:
            self._view = (state.seq, orjson.dumps(view_document(state, self.dated)))
        return self._view

    async def durable(self, seq: int) -> None:
        """Wait until an event is on disk: nobody outside sees more than the log has.

        Raises:
            UnreachableError: it will never be; the scheduler has stopped.
        """
        if not await self.stream.reached(seq):
            raise UnreachableError("the scheduler has stopped")

    @property
    def now(self) -> str:
        """The date and time it is, by the clock of the log."""
        return self.dated(self.site.now_us())
