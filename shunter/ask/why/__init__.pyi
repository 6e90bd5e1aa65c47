"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .answer import document as document
from .explanation import Explanation as Explanation, explain as explain
from .job_events import Round as Round
from .reasons import needs as needs, suffices as suffices
from .running import contract_of as contract_of
from .sentences import (
    details as details,
    headline as headline,
    how_ended as how_ended,
    rank_lines as rank_lines,
)
