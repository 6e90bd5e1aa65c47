"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .absence import PAUSE_S as PAUSE_S, Absence as Absence
from .async_client import AsyncClient as AsyncClient
from .clients import Client as Client
from .futures import AsyncJobHandle as AsyncJobHandle, JobHandle as JobHandle, end_of as end_of
from .job_request import (
    HEADINGS as HEADINGS,
    PRIORITY_MOST as PRIORITY_MOST,
    REQUIRED as REQUIRED,
    VARIABLES_MOST as VARIABLES_MOST,
    JobOptions as JobOptions,
    JobRequest as JobRequest,
    Option as Option,
    fields_of_request as fields_of_request,
)
from .requests import (
    VARIABLE as VARIABLE,
    Answer as Answer,
    Followed as Followed,
    Lines as Lines,
    act as act,
    error_of as error_of,
    is_name as is_name,
    is_passed_on as is_passed_on,
    problem_error as problem_error,
    read as read,
    submission as submission,
    together as together,
    token_from as token_from,
    value_of as value_of,
)
from .transport import (
    ConnectTimeoutError as ConnectTimeoutError,
    NoAnswerError as NoAnswerError,
    is_open as is_open,
    named as named,
    process_words as process_words,
)
