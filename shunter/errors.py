"""Every exception Shunter raises on purpose, and the exit code each one becomes.

    ShunterError                  1  something failed
    ├── UsageError                2  the command line asks for what cannot be
    ├── ConfigError               2  the operator's file is wrong: one line per key
    ├── TraceError                2  a trace or workload file is wrong
    ├── NotFoundError             3  no such job, log, policy or file
    ├── UnreachableError          4  no daemon can be talked to there
    │   └── UnavailableError      4  none answers now, or it cannot act now: ask again
    ├── RefusedError              5  not allowed: identity, ownership, quota
    │   ├── ConflictError         5  something else was asked for before under the same key
    │   └── RateLimitedError      5  asked too often; carries when to ask again
    ├── JobFailedError            1  a job one waited for failed; carries its exit status
    ├── IllegalEventError         1  the log does not fit the state: stop, never skip
    ├── PlanError                 1  a policy broke an invariant: refuse that change
    ├── BackendError              1  the world said no: `retryable` decides
    │   ├── SlurmRefusedError     1  Slurm has decided against it: nothing was done
    │   └── SlurmUnknownError     1  Slurm did not answer as it should: nothing is known
    ├── LogError                  1  the log cannot be read or written; carries `seq`
    │   ├── LogDamagedError       1  its bytes are not what was written
    │   │   └── LogSchemaError    2  an event is not what its kind says
    │   ├── StaleTermError        1  a newer scheduler writes here
    │   ├── LogExistsError        2  a log is there already and must not be touched
    │   └── LogVersionError       2  written by a newer Shunter
    └── ReplayDivergenceError     6  the same inputs led to another decision

The number is `exit_code`; only `shunter.cli` makes it the status of a process. `code` is how the
HTTP API names the error, and the client makes the same error of it. Messages say
what, which id, what was expected and what to do; lower case, no full stop. Every class survives
pickling with its fields, because `compare` runs simulations in other processes.
"""

from typing import ClassVar


class ShunterError(Exception):
    """The root: catch this to catch everything Shunter raises on purpose."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "failed"


class UsageError(ShunterError):
    """The command line asks for something that cannot be done as written."""

    exit_code: ClassVar[int] = 2
    code: ClassVar[str] = "usage"


class ConfigError(ShunterError):
    """The operator's configuration is wrong; the message has one line per key."""

    exit_code: ClassVar[int] = 2
    code: ClassVar[str] = "usage"


class TraceError(ShunterError):
    """A trace or workload file is wrong; the message names the file and the row."""

    exit_code: ClassVar[int] = 2
    code: ClassVar[str] = "usage"


class NotFoundError(ShunterError):
    """The job, log, policy or file that was asked for does not exist."""

    exit_code: ClassVar[int] = 3
    code: ClassVar[str] = "not_found"


class UnreachableError(ShunterError):
    """No daemon can be talked to there."""

    exit_code: ClassVar[int] = 4
    code: ClassVar[str] = "unavailable"


class UnavailableError(UnreachableError):
    """No daemon answers now, or it cannot act now: ask again, it may come up."""


class RefusedError(ShunterError):
    """The daemon knows what is asked, and does not allow it to this caller."""

    exit_code: ClassVar[int] = 5
    code: ClassVar[str] = "refused"


class ConflictError(RefusedError):
    """Something else was asked for before under the same key."""

    code: ClassVar[str] = "conflict"


class RateLimitedError(RefusedError):
    """Somebody asks more often than he may."""

    code: ClassVar[str] = "rate_limited"

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        """Keep in how many seconds the same may be asked again."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class JobFailedError(ShunterError):
    """A job that somebody waited for failed, ran out of time, or was rejected."""

    def __init__(self, message: str, exit_status: int | None = None) -> None:
        """Keep the exit code of its processes; None where nobody saw one."""
        super().__init__(message)
        self.exit_status = exit_status


class IllegalEventError(ShunterError):
    """An event does not fit the state: a bug or a corrupt log, so stop."""


class PlanError(ShunterError):
    """A policy broke an invariant of plans; the change is refused."""


class BackendError(ShunterError):
    """The outside world refused or lost an effect."""

    def __init__(self, message: str, retryable: bool = False) -> None:
        """Keep whether the same effect may be tried again as it stands."""
        super().__init__(message)
        self.retryable = retryable


class SlurmRefusedError(BackendError):
    """Slurm has decided against what was asked: it was not done, and will not be."""


class SlurmUnknownError(BackendError):
    """Slurm did not answer as it should: nothing is known, never "gone"."""

    def __init__(self, cause: str, hint: str = "") -> None:
        """Keep what went wrong and what to do about it; the same may be asked again."""
        super().__init__(f"{cause}; {hint}" if hint else cause, retryable=True)
        self.cause = cause
        self.hint = hint


class LogError(ShunterError):
    """The event log cannot be read or written."""

    def __init__(self, message: str, seq: int | None = None) -> None:
        """Keep the sequence number it happened at; None if no event is involved."""
        super().__init__(message)
        self.seq = seq


class LogDamagedError(LogError):
    """The bytes of the log are not those that were written; nothing is skipped."""


class LogSchemaError(LogDamagedError):
    """An event is not what its kind says: nothing of Shunter wrote these bytes."""

    exit_code: ClassVar[int] = 2


class StaleTermError(LogError):
    """A scheduler of a newer term owns the log; this writer must stop."""


class LogExistsError(LogError):
    """A log is there already; it stays untouched unless overwriting is asked for."""

    exit_code: ClassVar[int] = 2


class LogVersionError(LogError):
    """The log was written by a newer Shunter than this one."""

    exit_code: ClassVar[int] = 2


class ReplayDivergenceError(ShunterError):
    """The recorded inputs lead to another decision than the recorded one."""

    exit_code: ClassVar[int] = 6

    def __init__(self, message: str, seq: int | None = None) -> None:
        """Keep the sequence number of the first decision that differs."""
        super().__init__(message)
        self.seq = seq


def extra_hint(extra: str, distribution: str = "shunter") -> str:
    """Return how an extra is installed.

    The command is right for a wheel and for an editable checkout: pip keeps the distribution that
    is installed, without looking for it, and adds what the extra needs.

    Args:
        extra: its name.
        distribution: the one that the extra belongs to.
    """
    return f"install the extra in Shunter's environment: pip install '{distribution}[{extra}]'"


def first_error(errors: BaseException) -> BaseException:
    """Return the first error of ours in a group, else its first; any other as it is."""
    while isinstance(errors, BaseExceptionGroup):
        ours = errors.subgroup(ShunterError)
        errors = (ours or errors).exceptions[0]
    return errors
