"""Functions as jobs: a call is written into a folder that client and servers share, and run there.

The folder is the user's own (mode 0700), since its files are run as code. It is removed once the
result was read.
"""

import os
import pickle
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar, cast
from uuid import uuid4

from shunter.client import called
from shunter.client.job_request import CallOptions, JobOptions
from shunter.errors import JobFailedError, UsageError, extra_hint

T = TypeVar("T")

PROGRAM = "call.py"
_OF_CALLS = ("folder", "python")
LATE_S = 5.0
"""How long a file may take to be seen here that a server has written: file systems cache."""


class Call(Generic[T]):
    """A function with its arguments, in a folder."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self._python = python

    @classmethod
    def prepared(
        cls,
        function: Callable[..., T],
        arguments: Sequence[object],
        keywords: Mapping[str, object],
        folder: str | os.PathLike[str] | None = None,
        python: str | None = None,
    ) -> "Call[T]":
        """Write a call down.

        Args:
            function: what is called there.
            arguments: in their order.
            keywords: by name.
            folder: where, on all servers; None: in one's home.
            python: what runs it there; None: this one.

        Raises:
            UsageError: cloudpickle is not installed, or something cannot be pickled.
            OSError: the folder cannot be made.
        """
        written = _pickled((function, tuple(arguments), dict(keywords)))
        within = Path(folder) if folder else Path.home() / ".shunter" / "calls"
        within.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = within.resolve() / uuid4().hex
        made.mkdir(mode=0o700)
        (made / called.CALL).write_bytes(pickle.dumps(sys.path) + written)
        (made / PROGRAM).write_text(Path(called.__file__).read_text(encoding="utf-8"), "utf-8")
        return cls(made, python or sys.executable)

    @property
    def command(self) -> list[str]:
        """What a job runs."""
        return [self._python, str(self.folder / PROGRAM)]

    def drop(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def value(self) -> T:
        """Return what the function returned, once the job has ended well.

        Raises:
            JobFailedError: nothing of that is there.
        """
        written = self._written(LATE_S)
        if written is None:
            raise JobFailedError(f"the job ended without a result in {self.folder}", exit_status=0)
        _, _, found = written
        self.drop()
        return found  # type: ignore[return-value]  # as the function says

    def error(self, failed: JobFailedError) -> Exception:
        """Return what the function raised; where it raised nothing, how the job failed."""
        written = self._written(0.0 if failed.exit_status != 1 else LATE_S)
        if written is None or written[0]:
            return failed
        _, told, found = written
        self.drop()
        if not isinstance(found, Exception):
            return JobFailedError(f"{failed}\n{told.strip()}", exit_status=failed.exit_status)
        found.add_note(f"{failed}\n{told.strip()}")
        return found

    def _written(self, patience_s: float) -> tuple[bool, str, object] | None:
        """Return whether the function returned, what it told, and its value or exception."""
        until = time.monotonic() + patience_s
        while not (self.folder / called.RESULT).exists():
            if time.monotonic() >= until or not self.folder.exists():
                return None
            time.sleep(0.1)
        with (self.folder / called.RESULT).open("rb") as file:
            is_well, told = pickle.load(file)  # noqa: S301  a folder of our own
            try:
                return is_well, told, pickle.load(file)  # noqa: S301  a folder of our own
            except (ImportError, AttributeError, TypeError, ValueError, EOFError) as error:
                return False, f"{told}what came cannot be read here: {error}", None


def described(
    what: Sequence[str] | Callable[..., T],
    arguments: Sequence[object],
    keywords: Mapping[str, object] | None,
    options: CallOptions,
) -> tuple[Sequence[str], JobOptions, Call[T] | None]:
    """Return command and options to submit, and the call if it is a function's.

    Raises:
        UsageError: what is said does not go together, or cannot be pickled.
    """
    of_job = {name: value for name, value in options.items() if name not in _OF_CALLS}
    said = cast("JobOptions", of_job)
    if callable(what):
        if "array" in options:
            raise UsageError("array: a function is one job; use client.executor(…).map")
        call = Call.prepared(
            what, arguments, keywords or {}, options.get("folder"), options.get("python")
        )
        said.setdefault("name", getattr(what, "__name__", type(what).__name__).strip("<>"))
        return call.command, said, call
    if isinstance(what, str):
        raise UsageError(f"command = {what!r}: expected a list of words, such as {what.split()!r}")
    if arguments or keywords or len(said) < len(options):
        raise UsageError("arguments, keywords, folder and python are for functions, not commands")
    return what, said, None


def _pickled(call: object) -> bytes:
    """Return a call as bytes; functions of the script itself by value.

    Raises:
        UsageError: cloudpickle is not installed, or something cannot be pickled.
    """
    try:
        import cloudpickle
    except ImportError as error:
        raise UsageError(
            "a function is sent by cloudpickle, which is not installed: "
            f"{extra_hint('functions')}, or submit a command"
        ) from error
    try:
        return bytes(cloudpickle.dumps(call))
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"the function or an argument cannot be pickled: {error}") from error
